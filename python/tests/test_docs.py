"""Every snippet of the guide is run, and the example answers requests."""

from __future__ import annotations

import ast
import asyncio
import importlib.util
import inspect
import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

# A copy of python/, with the guide in it; see python/test.
HERE = Path(__file__).resolve().parent.parent


def snippets(page: Path) -> list[tuple[int, str]]:
    text = page.read_text()
    return [
        (text.count("\n", 0, found.start(1)), found.group(1))
        for found in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    ]


@pytest.mark.parametrize("page", [HERE / "docs/python.md", HERE / "README.md"])
def test_the_snippets_of_a_page_are_one_session(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    session: dict[str, Any] = {"__name__": "snippet"}
    loop = asyncio.new_event_loop()
    found = snippets(page)
    assert found
    for line, source in found:
        code = compile(
            "\n" * line + source, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        )
        if code.co_flags & inspect.CO_COROUTINE:
            loop.run_until_complete(types.FunctionType(code, session)())
        else:
            exec(code, session)
    loop.close()


def test_the_web_application(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fastapi.testclient import TestClient

    monkeypatch.setenv("DATABASE", str(path))
    spec = importlib.util.spec_from_file_location("fastapi_app", HERE / "examples/fastapi_app.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules["fastapi_app"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with TestClient(module.app) as client:
        assert client.post("/items", json={"name": "nail", "amount": 7}).status_code == 201
        assert client.post("/items", json={"name": "nail", "amount": 7}).status_code == 409
        assert client.get("/items").json() == [{"name": "nail", "amount": 7}]
