"""OpenAPI 3.1, made from the route table that is served."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

import pyrula
from pyrula.web import wire
from pyrula.web.call import Operation
from pyrula.web.problems import MEDIA_TYPE, TITLES, ProblemDetails, by_status

_REF: Final = "#/components/schemas/{name}"
_DESCRIPTION: Final = (
    "Submit runs, wait for them, see what they wait for, and steer. A slash in an id or a name is written %2F. "
    "Errors are problem details (RFC 9457); `code` is stable."
)
_OF_ANY: Final = ("time_limit", "store_busy")
_OF_BODIES: Final = (
    "not_json",
    "payload_too_large",
    "unsupported_media_type",
    "request_timeout",
    "invalid_payload",
)


def codes(operation: Operation) -> set[str]:
    """Every code of a problem that an operation may answer with."""
    found = {*operation.problems, *_OF_ANY, "cross_site"}
    found.add("bad_request")  # an unknown query parameter is one for every address
    if operation.right != "open":
        found |= {"unauthenticated", "forbidden"}
    if operation.body is not None:
        found.update(_OF_BODIES)
    if "/{name}" in operation.path and operation.right == "submit":
        found.add("method_not_allowed")
    return found


def document(operations: Sequence[Operation]) -> dict[str, Any]:
    """The description of `operations`."""
    kinds = _kinds(operations)
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REF)
    by_kind = {_name(kind): schema for kind, schema in zip(kinds, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, by_kind)
    return {
        "openapi": "3.1.0",
        "info": {"title": "pyrula", "version": pyrula.__version__, "description": _DESCRIPTION},
        "paths": paths,
        "components": {
            "schemas": dict(components),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _kinds(operations: Sequence[Operation]) -> list[Any]:
    kinds: dict[str, Any] = {_name(ProblemDetails): ProblemDetails}
    for operation in operations:
        for kind in (operation.body, *operation.answers.values()):
            if kind is not None and kind is not dict and kind is not bytes:
                kinds[_name(kind)] = kind
    return list(kinds.values())


def _name(kind: Any) -> str:
    return repr(kind)


def _operation(operation: Operation, schemas: Mapping[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "summary": operation.about,
        "operationId": operation.handle.__name__
        + ("_" + operation.path.strip("/{}").replace("/", "_").replace("{", "").replace("}", "")),
        "parameters": [
            *(
                {"name": name, "in": "path", "required": True, "schema": _path_schema(name)}
                for name in operation.names
            ),
            *(
                {"name": query.name, "in": "query", "description": query.about, "schema": query.schema()}
                for query in operation.query
            ),
            *(
                {
                    "name": name,
                    "in": "header",
                    "description": about,
                    "schema": {"type": "string", "minLength": 1, "maxLength": 300, "pattern": "^[!-~]+$"},
                }
                for name, about in operation.headers
            ),
        ],
        "responses": {
            **{str(status): _answer(operation, kind, schemas) for status, kind in operation.answers.items()},
            **_problems(operation, schemas),
        },
    }
    if operation.body is not None:
        schema = {"type": "object"} if operation.body is dict else schemas[_name(operation.body)]
        described["requestBody"] = {
            "required": operation.body is not wire.Nothing,
            "content": {wire.JSON: {"schema": schema}},
        }
    if operation.right != "open":
        described["security"] = [{"token": []}]
    return described


def _path_schema(name: str) -> dict[str, Any]:
    return {"type": "string", "minLength": 1}


def _answer(operation: Operation, kind: Any, schemas: Mapping[str, Any]) -> dict[str, Any]:
    if kind is None:
        return {"description": operation.about}
    schema = {"type": "string"} if operation.media != wire.JSON else schemas[_name(kind)]
    return {"description": operation.about, "content": {operation.media: {"schema": schema}}}


def _problems(operation: Operation, schemas: Mapping[str, Any]) -> dict[str, Any]:
    schema = schemas[_name(ProblemDetails)]
    return {
        str(status): {
            "description": "; ".join(f"`{code}`: {TITLES[code][1]}" for code in found),
            "content": {MEDIA_TYPE: {"schema": schema}},
        }
        for status, found in by_status(codes(operation)).items()
    }
