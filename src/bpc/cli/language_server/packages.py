"""Packages of which a document is open: which files may be read, and the last check.

Rule files of the folders that are open in the editor may be read, and nothing else. A document that is open is what the
editor says it is; other files of its package are read from the disk, if they are inside a folder of the workspace,
links followed. A package that is shipped with bpc is part of the program and is read as well.

A package is checked when somebody asks and something changed, and what the check before found is used again
(`bpc.core.language.package.read_again`).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from bpc.cli.support.package_folders import SHIPPED_RULES, find_shipped_package, list_package_files
from bpc.core.errors import Invalid
from bpc.core.language.checking.context import LocatedDiagnostic
from bpc.core.language.editing.edits import TextEdit, apply_edits, list_file_texts, list_rename_edits, propose_fixes
from bpc.core.language.editing.outline import TestOutcome
from bpc.core.language.editing.places import CheckedPlace, FileName, find_place, locate_span
from bpc.core.language.linking import PackageFiles, link_package
from bpc.core.language.manifest import MANIFEST, PackageReference, read_manifest
from bpc.core.language.needed_packages import gather_packages
from bpc.core.language.package import PackageReading, PackageTexts, read_again
from bpc.core.language.source import MAX_SOURCE_BYTES, Source, Span

ENDING: Final = ".bpc"
_MAX_FILES: Final = 2_000


@dataclass(slots=True)
class WorkspaceFiles:
    """What may be read, what is open, and what was read."""

    roots: list[Path] = field(default_factory=list)
    open_texts: dict[Path, str] = field(default_factory=dict)
    _contents: dict[Path, bytes] = field(default_factory=dict)
    _folders: dict[Path, list[str]] = field(default_factory=dict)
    _inside: dict[Path, bool] = field(default_factory=dict)

    def forget(self) -> None:
        """Read everything anew: something changed on the disk."""
        self._contents.clear()
        self._folders.clear()
        self._inside.clear()

    def is_inside(self, path: Path) -> bool:
        """Whether a file is in the workspace, or in a package that is shipped with the program."""
        if "\0" in str(path):  # no file has such a name; documents that are no files do
            return False
        if path not in self._inside:
            real_path = path.resolve()
            self._inside[path] = any(real_path.is_relative_to(root) for root in (*self.roots, SHIPPED_RULES.resolve()))
        return self._inside[path]

    def read(self, path: Path) -> bytes:
        """The text of an open document, or else the file; `Invalid` if it may not or cannot be read."""
        text = self.open_texts.get(path)
        if text is not None:
            return text.encode(errors="surrogatepass")
        if path not in self._contents:
            self._contents[path] = self._read_file(path)
        return self._contents[path]

    def _read_file(self, path: Path) -> bytes:
        if path.suffix != ENDING or not self.is_inside(path):
            raise Invalid(f"`{path}` is not in the folder that is open in the editor", fix="open a folder that has it")
        try:
            with path.open("rb") as file:
                return file.read(MAX_SOURCE_BYTES + 1)
        except OSError as error:
            raise Invalid(f"`{path}` cannot be read: {error.strerror}") from None

    # Packages

    def find_folder(self, path: Path) -> Path | None:
        """The folder of the package that a file belongs to: the nearest one above it that has a manifest."""
        for folder in path.parents:
            manifest = folder / MANIFEST
            if manifest in self.open_texts or (self.is_inside(folder) and manifest.is_file()):
                return folder
        return None

    def read_package(self, folder: Path) -> tuple[list[PackageFiles], dict[str, Path]]:
        """A package and all that it needs, in the order of linking; and the folder of each by its name."""
        placed_packages = gather_packages(folder, self._read_one, self._locate)
        folders = {placed.manifest.name: placed.place for placed in placed_packages}
        return [placed.package for placed in placed_packages], folders

    def _read_one(self, folder: Path) -> PackageFiles:
        manifest = read_manifest(str(folder / MANIFEST), self.read(folder / MANIFEST))
        return PackageFiles(manifest, {path: self.read(folder / path) for path in self.list_files(folder)})

    def _locate(self, folder: Path, reference: PackageReference) -> Path:
        if reference.folder is None:
            return find_shipped_package(reference.name, reference.release).folder
        place = (folder / reference.folder).resolve()
        if not self.is_inside(place):
            fix = "open a folder in the editor that has both packages"
            raise Invalid(f"`{reference.folder}` is not in the folder that is open in the editor", fix=fix)
        return place

    def list_files(self, folder: Path) -> list[str]:
        """The rule files of a package, also those that are open and not saved yet."""
        if folder not in self._folders:
            names = list_package_files(folder) if self.is_inside(folder) else []
            self._folders[folder] = [name for name in names if self.is_inside(folder / name)][:_MAX_FILES]
        own_names = {
            path.relative_to(folder).as_posix()
            for path in self.open_texts
            if path.is_relative_to(folder) and path.suffix == ENDING and path.name != MANIFEST
        }
        return sorted({*self._folders[folder], *own_names})

    def find_partner(self, path: Path) -> tuple[Path, Path | None]:
        """The rules and the tests that belong together: `a.bpc` and `a-tests.bpc`, or `rules.bpc` and `tests.bpc`."""
        stem = path.stem
        for ending in ("-tests", "_tests"):
            rules = path.with_name(f"{stem.removesuffix(ending)}{ENDING}")
            if stem.endswith(ending) and self._exists(rules):
                return rules, path
        if stem == "tests" and self._exists(path.with_name(f"rules{ENDING}")):
            return path.with_name(f"rules{ENDING}"), path
        names = [f"{stem}-tests", f"{stem}_tests", *(["tests"] if stem == "rules" else [])]
        tests = [path.with_name(f"{name}{ENDING}") for name in names]
        return path, next((file for file in tests if self._exists(file)), None)

    def _exists(self, path: Path) -> bool:
        return path in self.open_texts or (self.is_inside(path) and path.is_file())


@dataclass(frozen=True, slots=True)
class PackageInput:
    """What is checked: packages of files in the order of linking, or else one text of rules and one of tests."""

    packages: Sequence[PackageFiles] = ()
    rules: tuple[str, bytes] = ("rules.bpc", b"")
    tests: tuple[str, bytes] = ("tests.bpc", b"")

    def to_texts(self) -> PackageTexts:
        if not self.packages:
            return PackageTexts(self.rules[1], self.tests[1], self.rules[0], self.tests[0])
        name = self.packages[-1].manifest.name
        package = link_package(self.packages)
        return PackageTexts(package.rules, package.tests, name, name)

    def change(self, texts: Mapping[FileName, str]) -> "PackageInput":
        """The same with other texts in some files."""
        if not self.packages:
            rules, tests = (
                (name, texts[FileName("", name)].encode() if FileName("", name) in texts else data)
                for name, data in (self.rules, self.tests)
            )
            return PackageInput(rules=rules, tests=tests)
        return PackageInput([self._change_package(package, texts) for package in self.packages])

    @staticmethod
    def _change_package(package: PackageFiles, texts: Mapping[FileName, str]) -> PackageFiles:
        name = package.manifest.name
        files = {
            path: texts[FileName(name, path)].encode() if FileName(name, path) in texts else data
            for path, data in package.files.items()
        }
        return replace(package, files=files)


@dataclass(slots=True, eq=False)
class OpenPackage:
    """A package, checked. `paths` says where its files are; a document that is no file has none."""

    paths: Mapping[FileName, Path] = field(default_factory=dict)
    content: PackageInput = field(default_factory=PackageInput)
    reading: PackageReading | None = None
    outcome: TestOutcome | None = None
    outcome_texts: PackageTexts | None = None

    def check(self, content: PackageInput, paths: Mapping[FileName, Path]) -> PackageReading:
        texts = content.to_texts()
        self.reading = read_again(texts, self.reading)
        self.content, self.paths = content, paths
        if self.outcome_texts is not None and self.outcome_texts[:2] != texts[:2]:
            self.outcome = self.outcome_texts = None
        return self.reading

    def find_file(self, path: Path) -> FileName | None:
        return next((name for name, file in self.paths.items() if file == path), None)

    def find_place(self, path: Path, offset: int) -> tuple[PackageReading, CheckedPlace] | None:
        name = self.find_file(path)
        if self.reading is None or name is None:
            return None
        place = find_place(self.reading, name, offset)
        return None if place is None else (self.reading, place)

    def locate(self, source: Source, span: Span) -> tuple[Path | None, Span]:
        """The file of a part of a checked text, and the part of it there."""
        file, own_span = locate_span(source, span)
        if file in self.paths:
            return self.paths[file], own_span
        # A text that was linked elsewhere and is open as one document.
        return self.paths.get(FileName("", source.name)), span

    def list_fixes(self, problem: LocatedDiagnostic) -> list[tuple[str, TextEdit]]:
        """The edits that remove a mistake and make no other, each with its title."""
        reading = self.reading
        if reading is None:
            return []
        fixes = []
        for title, span, words in propose_fixes(*problem):
            file, own_span = locate_span(problem.source, span)
            edit = TextEdit(file, own_span, words)
            if file in self.paths and self._removes(reading, problem, edit):
                fixes.append((title, edit))
        return fixes

    def _removes(self, reading: PackageReading, problem: LocatedDiagnostic, edit: TextEdit) -> bool:
        after = self._check_edited(reading, [edit])
        before, left = (_count_kinds(each.package.diagnostics) for each in (reading, after))
        kind = problem.diagnostic.kind
        return left[kind] < before[kind] and not left - before

    def _check_edited(self, reading: PackageReading, edits: Sequence[TextEdit]) -> PackageReading:
        texts = apply_edits(list_file_texts(reading), edits)
        return read_again(self.content.change(texts).to_texts(), reading)

    def list_rename_edits(self, reading: PackageReading, place: CheckedPlace, new_name: str) -> list[TextEdit]:
        """The edits that give a name another one; `Invalid` if the package would have a mistake more."""
        edits = list_rename_edits(reading, place, new_name)
        diagnostics = self._check_edited(reading, edits).package.diagnostics
        more = _count_kinds(diagnostics) - _count_kinds(reading.package.diagnostics)
        for _, diagnostic in diagnostics:
            if diagnostic.kind in more:
                raise Invalid(f"with the name `{new_name}` the rules would be wrong: {diagnostic.message}")
        return edits


def _count_kinds(diagnostics: Sequence[LocatedDiagnostic]) -> Counter[str]:
    return Counter(problem.diagnostic.kind for problem in diagnostics)
