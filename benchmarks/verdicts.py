"""How often verdicts are right: random curves whose verdict is known, without noise and with 5 % of it."""

from __future__ import annotations

import argparse
import collections
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from verdict_curves import draw_table  # noqa: E402

from afterfit._diagnose import VERDICTS, diagnose  # noqa: E402

PAGE, MARK = HERE.parent / "docs" / "concepts.md", "verdicts-measured"
SHARES = {False: 0.99, True: 0.95}  # the goals, without noise and with it


def measure(count: int, *, noise: bool, seed: int = 0) -> dict[str, collections.Counter[str]]:
    """What `count` curves of each kind are called."""
    seen = {}
    for k, kind in enumerate(VERDICTS):
        rng = np.random.default_rng([seed, k, noise])
        tables = (draw_table(kind, rng, noise=noise) for _ in range(count))
        seen[kind] = collections.Counter(
            diagnose(t.time, t.train, t.test, t.criteria, loss=t.loss).kind for t in tables
        )
    return seen


def share(seen: dict[str, collections.Counter[str]], kind: str) -> float:
    return seen[kind][kind] / seen[kind].total()


def markdown(measured: dict[bool, dict[str, collections.Counter[str]]]) -> str:
    lines = ["| what the curves show | named right | with 5 % noise | else called, with noise |", "|---|---|---|---|"]
    for kind in VERDICTS:
        wrong = [f"{name} ({n})" for name, n in measured[True][kind].most_common() if name != kind]
        shares = (f"{100 * share(measured[noise], kind):.1f} %" for noise in (False, True))
        lines.append(f"| {kind} | {' | '.join(shares)} | {', '.join(wrong) or '–'} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="curves of each kind")
    parser.add_argument("--dry", action="store_true", help="print the table, leave the page as it is")
    arguments = parser.parse_args()
    measured = {noise: measure(arguments.count, noise=noise) for noise in (False, True)}
    table = markdown(measured)
    print(table)
    if not arguments.dry:
        text = PAGE.read_text(encoding="utf-8")
        before, rest = text.split(f"<!-- {MARK} -->\n")
        _, after = rest.split(f"<!-- /{MARK} -->")
        PAGE.write_text(f"{before}<!-- {MARK} -->\n{table}\n<!-- /{MARK} -->{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
