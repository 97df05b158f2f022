"""`bpc rules mutate`: change rules in small ways and see which changes no test notices."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Annotated, Final

import typer

from bpc.cli.support.output import REFUSED, AsJson, format_count, print_json, print_line, print_refusal, print_table
from bpc.cli.support.progress import show_progress
from bpc.cli.support.rule_files import RulesArgument, TestsFileOption, exit_with_diagnostics, read_package_texts
from bpc.core.language.package import PackageTexts, RulesRefused
from bpc.core.language.testing.mutation import Mutant, MutationReport, Verdict, select_mutants
from bpc.core.language.testing.mutation_run import Baseline, MutationRun

MUTANTS_A_TASK: Final = 4


def mutate_rules(
    rules: RulesArgument,
    tests: TestsFileOption = None,
    sample: Annotated[
        int | None,
        typer.Option(
            "--sample", metavar="N", min=1, help="Try only so many changes, chosen by the seed [default: all of them]."
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option("--seed", metavar="N", min=0, help="Seed for the choice of changes and the random cases."),
    ] = 0,
    min_score: Annotated[
        int, typer.Option("--min", metavar="PERCENT", min=0, max=100, help="Exit 1 if the score is lower.")
    ] = 0,
    jobs: Annotated[
        int | None, typer.Option("--jobs", metavar="N", min=1, help="Processes [default: one for each processor].")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Change rules in small ways and list the changes that no test notices.

    A comparison, an operator, a number, a date, a condition, a row of a table, the period and the severity of a
    requirement: each is changed by itself, and the tests that depend on it run on the changed rules. Where no test
    notices, the rules could be wrong and nobody would know. The score is the share of changes that a test noticed.

    \b
    bpc rules mutate battery.bpc --tests battery_tests.bpc
    bpc rules mutate rules/battery --sample 500 --min 90
    """
    texts = read_package_texts(rules, tests)
    try:
        run = MutationRun(texts, seed=seed)
    except RulesRefused as refused:
        exit_with_diagnostics(refused.diagnostics, as_json=as_json)
    baseline = run.run_baseline()
    mutants = select_mutants(run.mutants, sample, seed)
    verdicts: list[tuple[Mutant, Verdict]] = []
    with show_progress("changing", as_json=as_json) as bar:
        for verdict in judge_mutants(run, texts, baseline, mutants, seed=seed, jobs=jobs or os.cpu_count() or 1):
            verdicts.append(verdict)
            bar.update(len(verdicts), len(mutants), "changes")
    report = MutationReport(run.source, len(run.mutants), tuple(verdicts))
    if as_json:
        print_json(report.as_json())
    else:
        _print_report(report, seed)
    if report.score < min_score:
        if not as_json:
            says = f"the score is {report.score} %, and {min_score} % is required"
            print_refusal("RULE_TESTS_FAILED", says, "write tests for the changes above", {}, as_json=False)
        raise typer.Exit(REFUSED)


def judge_mutants(
    run: MutationRun, texts: PackageTexts, baseline: Baseline, mutants: Sequence[Mutant], *, seed: int, jobs: int
) -> Iterator[tuple[Mutant, Verdict]]:
    """The verdicts in the order of the mutants, whichever process comes to them first."""
    if jobs == 1 or len(mutants) <= MUTANTS_A_TASK:
        yield from ((mutant, run.judge(mutant, baseline)) for mutant in mutants)
        return
    with ProcessPoolExecutor(
        jobs, mp_context=get_context("spawn"), initializer=_prepare_process, initargs=(texts, baseline, seed)
    ) as processes:
        verdicts = processes.map(_judge_mutant, mutants, chunksize=MUTANTS_A_TASK)
        yield from zip(mutants, verdicts, strict=True)


# What each process of the pool keeps.
_prepared: list[tuple[MutationRun, Baseline]] = []


def _prepare_process(texts: PackageTexts, baseline: Baseline, seed: int) -> None:
    _prepared[:] = [(MutationRun(texts, seed=seed), baseline)]


def _judge_mutant(mutant: Mutant) -> Verdict:
    run, baseline = _prepared[0]
    return run.judge(mutant, baseline)


def _print_report(report: MutationReport, seed: int) -> None:
    survivors = report.list_survivors()
    if survivors:
        print_line("no test notices:")
    for mutant in survivors:
        place = report.source.find_place(mutant.change.span.start)
        print_line(f"  {place} in {mutant.item}: {mutant.change.says}")
    files = report.list_files()
    if len(files) > 1:
        rows = [(file.file, file.noticed, file.noticed + file.survived, f"{file.score} %") for file in files]
        print_table(("FILE", "NOTICED", "OF", "SCORE"), rows)
    noticed_count, valid = report.count("noticed"), len(report.verdicts) - report.count("invalid")
    print_line(
        f"SCORE {report.score} %  {noticed_count:,} of {format_count(valid, 'change')} noticed, "
        f"{len(report.verdicts):,} of {report.total:,} tried, seed {seed}",
        colour="green" if not survivors else "yellow",
        bold=True,
    )
