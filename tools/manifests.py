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


def load_documents(name: str) -> Iterator[dict[str, Any]]:
    text = sys.stdin.read() if name == "-" else Path(name).read_text()
    yield from (document for document in yaml.safe_load_all(text) if document)


def find_problems(document: dict[str, Any]) -> list[str]:
    if document["apiVersion"] == OPERATOR:
        return find_operator_problems(document)
    try:
        kubernetes_validate.validate(document, VERSION, strict=True)
    except kubernetes_validate.ValidationError as error:
        return [f"{'.'.join(map(str, error.path))}: {error.message}"]
    return []


def find_operator_problems(document: dict[str, Any]) -> list[str]:
    kind = getattr(operator, document["kind"])
    try:
        model = kind.model_validate(document)
    except ValueError as error:
        return [str(error)]
    # The models pass over fields they do not know: what is not there after reading was none.
    return list(find_lost_fields(document, model.model_dump(mode="json", by_alias=True, exclude_unset=True), ""))


def find_lost_fields(original: Any, parsed: Any, path: str) -> Iterator[str]:
    if isinstance(original, dict) and isinstance(parsed, dict):
        for key in original:
            if key not in parsed:
                yield f"{path}.{key}: there is no such field"
            else:
                yield from find_lost_fields(original[key], parsed[key], f"{path}.{key}")
    elif isinstance(original, list) and isinstance(parsed, list):
        for index, (original_item, parsed_item) in enumerate(zip(original, parsed, strict=True)):
            yield from find_lost_fields(original_item, parsed_item, f"{path}[{index}]")
    elif original != parsed:
        yield f"{path}: `{original}` is read as `{parsed}`"


def main() -> int:
    checked, problem_count = 0, 0
    for name in sys.argv[1:]:
        for document in load_documents(name):
            checked += 1
            for problem in find_problems(document):
                problem_count += 1
                print(f"{name}: {document['kind']} {document['metadata']['name']}: {problem}")
    print(f"{checked} manifests, {problem_count} problems (Kubernetes {VERSION})")
    return 1 if problem_count or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
