"""SQLAlchemy over sqlalchemy-libsql."""

import sys

from sqlalchemy import String, create_engine, func, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column


class Base(DeclarativeBase):
    pass


class User(Base):
    __tablename__ = "people"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String, unique=True)
    balance: Mapped[float | None]


address = sys.argv[1].removeprefix("http://")
engine = create_engine(f"sqlite+libsql://{address}?secure=false", connect_args={"auth_token": ""})
Base.metadata.drop_all(engine)
Base.metadata.create_all(engine)

with Session(engine) as session:
    session.add_all([User(name="Ada", balance=1.5), User(name="Bob")])
    session.commit()
with Session(engine) as session:
    session.add(User(name="Eve"))
    session.flush()
    session.rollback()
with Session(engine) as session:
    ada = session.scalars(select(User).where(User.name == "Ada")).one()
    assert (ada.id, ada.balance) == (1, 1.5)
    ada.balance = 2
    session.commit()
    assert session.scalar(select(func.count()).select_from(User)) == 2
    session.add(User(name="Ada"))
    try:
        session.commit()
        raise AssertionError("not refused")
    except (DBAPIError, ValueError) as error:
        assert "UNIQUE constraint failed" in str(error)
engine.dispose()
