# SPDX-License-Identifier: GPL-2.0-or-later
"""Make what programs of Debian packages read in the suite, the same each time."""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections.abc import Callable, Iterator

Pick = Callable[[], float]


def clauses(pick: Pick, variables: int) -> Iterator[str]:
    """A formula of clauses of three, few enough that it can be satisfied."""
    count = variables * 31 // 10
    yield f"p cnf {variables} {count}"
    for _ in range(count):
        chosen = [1 + int(pick() * variables) for _ in range(3)]
        yield " ".join(str(v if pick() < 0.5 else -v) for v in chosen) + " 0"


def transport(pick: Pick, works: int) -> Iterator[str]:
    """What goes from works to shops at the least cost: a linear program, as CPLEX reads them."""
    shops = 3 * works
    yield "Minimize"
    for i in range(works):
        terms = (f"+ {1 + int(pick() * 999)} x{i}_{j}" for j in range(shops))
        yield "\n".join(([f" cost: {next(terms)}"] if i == 0 else []) + list(terms))
    yield "Subject To"
    for i in range(works):
        yield f" work{i}:\n" + "\n".join(f"+ x{i}_{j}" for j in range(shops)) + "\n <= 400"
    for j in range(shops):
        wanted = 50 + int(pick() * 50)
        yield f" shop{j}:\n" + "\n".join(f"+ x{i}_{j}" for i in range(works)) + f"\n >= {wanted}"
    yield "End"


def reads(pick: Pick, count: int) -> Iterator[str]:
    """Pieces of a genome in FASTA, many of them more than once."""
    genome = "".join("ACGT"[int(pick() * 4)] for _ in range(1_000_000))
    for i in range(count):
        start = int(pick() * pick() * 200_000) * 4
        yield f">r{i}\n{genome[start : start + 50]}"


def alignment(pick: Pick, species: int) -> Iterator[str]:
    """Genes of species, each with changes to the gene of an earlier one, in FASTA."""
    genes = [["ACGT"[int(pick() * 4)] for _ in range(3000)]]
    while len(genes) < species:
        gene = list(genes[int(pick() * len(genes))])
        for _ in range(60):
            gene[int(pick() * len(gene))] = "ACGT"[int(pick() * 4)]
        genes.append(gene)
    for i, gene in enumerate(genes):
        yield f">species{i}\n{''.join(gene)}"


def orders(pick: Pick, count: int) -> Iterator[str]:
    """Customers, and orders that name them, in XML."""
    customers = max(1, count // 10)
    yield '<?xml version="1.0"?>\n<shop>'
    for i in range(customers):
        town = int(pick() * 500)
        yield f'<customer id="c{i}"><name>Customer {i}</name><town>t{town}</town></customer>'
    for i in range(count):
        yield f'<order number="{i}" customer="c{int(pick() * customers)}">'
        yield f"<good>g{int(pick() * pick() * 9999)}</good>"
        yield f"<price>{1 + int(pick() * 9999)}</price></order>"
    yield "</shop>"


def events(pick: Pick, count: int) -> Iterator[str]:
    """Events of users in JSON, one a line, in one array."""
    for i in range(count):
        event = {
            "user": f"user-{int(pick() * pick() * count / 8)}",
            "kind": ("view", "click", "buy")[int(pick() * 3)],
            "at": i,
            "tags": [f"tag{int(pick() * 300)}" for _ in range(3)],
            "cost": int(pick() * 10_000) / 100,
        }
        yield ("[" if i == 0 else ",") + json.dumps(event)
    yield "]"


def network(pick: Pick, nodes: int) -> Iterator[str]:
    """A network of clusters: pairs of nodes and a weight."""
    for node in range(nodes):
        cluster = node - node % 50
        for _ in range(12):
            near = cluster + int(pick() * 50)
            other = near if pick() < 0.85 else int(pick() * nodes)
            yield f"n{node} n{other} {pick():.3f}"


def drawing(pick: Pick, nodes: int) -> Iterator[str]:
    """A graph for Graphviz: a grid with some further edges."""
    side = math.isqrt(nodes)
    yield "graph {"
    for node in range(side * side):
        if node % side:
            yield f"{node} -- {node - 1}"
        if node >= side:
            yield f"{node} -- {node - side}"
        if pick() < 0.02:
            yield f"{node} -- {int(pick() * side * side)}"
    yield "}"


def points(pick: Pick, count: int) -> Iterator[str]:
    """Points of a cube, as qhull reads them."""
    yield f"3\n{count}"
    for _ in range(count):
        yield f"{pick():.9f} {pick():.9f} {pick():.9f}"


def documents(pick: Pick, count: int) -> Iterator[str]:
    """Documents of two kinds by the words that they have, as LIBLINEAR reads them."""
    for _ in range(count):
        kind = 1 if pick() < 0.5 else 0
        words = {
            1 + int(pick() * pick() * 200_000) * 2 + (pick() < 0.3 + 0.4 * kind) for _ in range(60)
        }
        yield f"{kind} " + " ".join(f"{word}:{0.1 + pick():.2f}" for word in sorted(words))


def functions(pick: Pick, count: int) -> Iterator[str]:
    """A program in C of functions that call earlier ones."""
    yield "static int global;"
    for i in range(count):
        yield f"int f{i}(int a, const int *b)\n{{\n\tint x = a, i;"
        for _ in range(6):
            yield f"\tfor (i = 0; i < {2 + int(pick() * 30)}; i++) {{"
            yield f"\t\tx += b[i] * {int(pick() * 99)} + (a ^ {int(pick() * 99)});"
            yield f"\t\tif (x > {int(pick() * 9999)})\n\t\t\tglobal += x;\n\t}}"
        yield f"\treturn x + f{int(pick() * i)}(x, b);\n}}" if i else "\treturn x;\n}"


KINDS: dict[str, tuple[Callable[[Pick, int], Iterator[str]], int]] = {
    "alignment": (alignment, 300),
    "clauses": (clauses, 200_000),
    "documents": (documents, 120_000),
    "drawing": (drawing, 2600),
    "events": (events, 140_000),
    "functions": (functions, 600),
    "network": (network, 7000),
    "orders": (orders, 200_000),
    "points": (points, 80_000),
    "reads": (reads, 1_600_000),
    "transport": (transport, 170),
}


def main() -> int:
    """Print one input."""
    parser = argparse.ArgumentParser(
        prog="package-inputs", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("--size", type=int, help="how much of it, in units of its own")
    options = parser.parse_args()
    lines, size = KINDS[options.kind]
    if options.size is not None:
        size = options.size
    if size < 1:
        parser.error("--size must be at least 1")
    for line in lines(random.Random(1).random, size):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
