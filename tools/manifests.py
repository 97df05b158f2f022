"""Validates Kubernetes manifests: `manifests.py FILE…`, or `-` for what kustomize rendered, on standard input.

Run with the environment of `make manifests`. Kinds of the Prometheus operator are compared with its own definitions,
all others with Kubernetes'. Ends with 1 if one of them is wrong.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import kubernetes_validate
import yaml
from cloudcoil.models.prometheus_operator import v1 as operator

OPERATOR: Final = "monitoring.coreos.com/v1"
VERSION: Final = kubernetes_validate.latest_version()


def documents(name: str) -> Iterator[dict[str, Any]]:
    text = sys.stdin.read() if name == "-" else Path(name).read_text()
    yield from (document for document in yaml.safe_load_all(text) if document)


def problems(document: dict[str, Any]) -> list[str]:
    if document["apiVersion"] == OPERATOR:
        return operator_problems(document)
    try:
        kubernetes_validate.validate(document, VERSION, strict=True)
    except kubernetes_validate.ValidationError as wrong:
        return [f"{'.'.join(map(str, wrong.path))}: {wrong.message}"]
    return []


def operator_problems(document: dict[str, Any]) -> list[str]:
    kind = getattr(operator, document["kind"])
    try:
        read = kind.model_validate(document)
    except ValueError as wrong:
        return [str(wrong)]
    # The models pass over fields they do not know: what is not there after reading was none.
    return list(lost(document, read.model_dump(mode="json", by_alias=True, exclude_unset=True), ""))


def lost(given: Any, kept: Any, path: str) -> Iterator[str]:
    if isinstance(given, dict) and isinstance(kept, dict):
        for key in given:
            if key not in kept:
                yield f"{path}.{key}: there is no such field"
            else:
                yield from lost(given[key], kept[key], f"{path}.{key}")
    elif isinstance(given, list) and isinstance(kept, list):
        for index, (one, other) in enumerate(zip(given, kept, strict=True)):
            yield from lost(one, other, f"{path}[{index}]")
    elif given != kept:
        yield f"{path}: `{given}` is read as `{kept}`"


def main() -> int:
    checked, wrong = 0, 0
    for name in sys.argv[1:]:
        for document in documents(name):
            checked += 1
            for problem in problems(document):
                wrong += 1
                print(f"{name}: {document['kind']} {document['metadata']['name']}: {problem}")
    print(f"{checked} manifests, {wrong} problems (Kubernetes {VERSION})")
    return 1 if wrong or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
