"""A web application: each request is answered when its row is on disk.

    pip install groupcommit fastapi uvicorn
    uvicorn fastapi_app:app
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import groupcommit
from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    # Here, not at the top: a server that forks its workers opens the database in each.
    async with groupcommit.connect(os.environ.get("DATABASE", "app.db")) as db:
        await db.execute("CREATE TABLE IF NOT EXISTS items (name TEXT PRIMARY KEY, amount INTEGER)")
        app.state.db = db
        yield


app = FastAPI(lifespan=lifespan)


class Item(BaseModel):
    name: str
    amount: int


@app.post("/items", status_code=201)
async def add(item: Item, request: Request) -> Item:
    db: groupcommit.Database = request.app.state.db
    try:
        await db.execute("INSERT INTO items VALUES (:name, :amount)", item.model_dump(), deadline=5)
    except groupcommit.IntegrityError:
        raise HTTPException(409, "this item is there already") from None
    except groupcommit.NotRun:
        raise HTTPException(503, "try again", {"Retry-After": "1"}) from None
    return item


@app.get("/items")
async def items(request: Request) -> list[Item]:
    db: groupcommit.Database = request.app.state.db
    rows = await db.fetch_all("SELECT name, amount FROM items ORDER BY name", named=True)
    return [Item(**row) for row in rows]
