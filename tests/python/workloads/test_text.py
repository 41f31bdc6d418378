# SPDX-License-Identifier: GPL-2.0-or-later
"""Do the workloads on text and bytes get it right? Checked against plain Python."""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter

import pytest
from builders.workloads import MASK, below, checksum_of, hashed, random_numbers


def test_suffix_array_transforms_a_text() -> None:
    numbers = random_numbers(1)
    pick = below(numbers)
    text: list[int] = []
    while len(text) < 5000:
        length = 1 + pick(60)
        start = pick(len(text))
        again = len(text) > 1000 and next(numbers) & 1
        for k in range(length):
            text.append(text[start + k] if again else ord("a") + pick(20))
    del text[5000:]
    order = sorted(range(5000), key=lambda place: text[place:])
    expected = [text[place - 1] if place else 0 for place in order]
    assert checksum_of("suffix-array", size=5000) == hashed(expected)


@pytest.mark.parametrize(("size", "count"), [(1, 3), (40, 5), (700, 20)])
def test_suffix_automaton_finds_what_is_in_the_text(size: int, count: int) -> None:
    numbers = random_numbers(1)
    pick = below(numbers)
    text: list[int] = []
    while len(text) < size:
        end = len(text) + 1 + pick(300)
        draw = next(numbers)
        source = (draw >> 32) * (len(text) + 1) >> 32
        while len(text) < min(end, size):
            again = draw & 1 and source < len(text)
            text.append(text[source] if again else next(numbers) >> 32 & 3)
            source += 1
    whole = bytes(text)
    sums = []
    for _ in range(count):
        place = pick(size)
        read = b""
        found = []
        for step in range(150):
            draw = next(numbers)
            letter = text[(place + step) % size]
            read += bytes([draw >> 40 & 3 if not draw >> 32 & 15 else letter])
            start = next(i for i in range(len(read) + 1) if read[i:] in whole)
            found.append(len(read) - start)
        sums.append(hashed(found))
    different = {whole[i:j] for i in range(size) for j in range(i + 1, size + 1)}
    expected = hashed([*sums, len(different)])
    assert checksum_of("suffix-automaton", size=size, count=count) == expected


def times_found(text: str, word: str) -> int:
    """Overlapping or not."""
    return sum(text.startswith(word, place) for place in range(len(text)))


@pytest.mark.parametrize(("words", "rounds"), [(1, 1), (40, 1), (300, 2)])
def test_aho_corasick_finds_each_word(words: int, rounds: int) -> None:
    pick = below(random_numbers(1))
    known = []
    for _ in range(words):
        length = 4 + pick(21)
        # What an argument's argument picks comes first.
        known.append("".join(chr(97 + pick(pick(26) + 1)) for _ in range(length)))
    text = ""
    while len(text) < 6000:
        word = known[pick(words)]
        part = 1 + pick(len(word))
        text += word[:part] + chr(97 + part % 26)
    text = text[:6000]
    expected = [(number + 1) * times_found(text, word) for number, word in enumerate(known)]
    assert sum(expected) > 0
    found = checksum_of("aho-corasick", words=words, size=6000, rounds=rounds)
    assert found == rounds * sum(expected)


def edits(one: str, other: str) -> int:
    """How many letters to change, add or remove."""
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        last, row[0] = row[0], i
        for k, its in enumerate(other, 1):
            last, row[k] = row[k], min(row[k] + 1, row[k - 1] + 1, last + (letter != its))
    return row[-1]


@pytest.mark.parametrize("errors", [0, 1, 2, 4])
def test_spell_finds_words_like_it(errors: int) -> None:
    words, count = 250, 40
    pick = below(random_numbers(1))

    def letter() -> str:
        return chr(97 + pick(pick(26) + 1))

    known = ["".join(letter() for _ in range(3 + pick(10))) for _ in range(words)]
    first = {word: known.index(word) + 1 for word in known}
    sums = []
    for _ in range(count):
        word = known[pick(words)]
        for _ in range(2):
            place = pick(len(word))
            how = pick(3)
            new = letter() if how != 1 else ""
            word = word[:place] + new + word[place + (how < 2) :]
        near = {other: edits(word, other) for other in first}
        sums.append(sum(first[w] * (far + 1) for w, far in near.items() if far <= errors))
    assert (len(set(sums)) > 3) == (errors > 0)
    assert checksum_of("spell", words=words, count=count, errors=errors) == hashed(sums)


@pytest.mark.parametrize(("lines", "longest"), [(1, 1), (7, 20), (300, 40)])
def test_editor_moves_blocks_of_lines(lines: int, longest: int) -> None:
    numbers = random_numbers(1)
    pick = below(numbers)

    def new_line() -> str:
        length, letter = 1 + pick(80), pick(26)
        return "".join(chr(97 + (letter + place * place) % 26) for place in range(length))

    text = []
    for _ in range(lines):
        # A random number for the tree, which comes first.
        next(numbers)
        text.append(new_line())
    found = []
    for _ in range(700):
        begin = pick(lines)
        end = min(begin + 1 + pick(longest), lines)
        block, rest = text[begin:end], text[:begin] + text[end:]
        place = pick(len(rest) + 1)
        text = rest[:place] + block + rest[place:]
        place = pick(lines)
        text[place] = new_line()
        place = pick(lines)
        found += [hashed([ord(letter) for letter in line]) for line in text[place : place + 3]]
    assert checksum_of("editor", lines=lines, longest=longest, count=700) == hashed(found)


@pytest.mark.parametrize("size", [1, 64, 9999])
def test_huffman_decodes_what_it_coded(size: int) -> None:
    numbers = random_numbers(1)
    text = []
    for _ in range(size):
        draw = next(numbers)
        most = 1 + ((draw >> 32) * 64 >> 32)
        most = 1 + ((draw & 0xFFFFFFFF) * most >> 32)
        text.append((draw >> 16 & 0xFFFFFFFF) * most >> 32)
    # However ties are broken, the sum of the weights of all inner nodes is the least.
    counts = Counter(text)
    weights = [counts[letter] for letter in range(64)]
    heapq.heapify(weights)
    bits = 0
    while len(weights) > 1:
        weight = heapq.heappop(weights) + heapq.heappop(weights)
        bits += weight
        heapq.heappush(weights, weight)
    assert checksum_of("huffman", size=size) == hashed([*text, bits])


def test_dedup_knows_chunks_by_their_sha_256() -> None:
    size = 3 << 20
    numbers = random_numbers(1)
    gears = [next(numbers) for _ in range(256)]
    data = bytearray()
    while len(data) < size:
        random = next(numbers)
        length = 1 + ((random >> 32) * 2**20 >> 32)
        start = next(numbers) % len(data) if data else 0
        length = min(length, size - len(data))
        if random & 1 and length <= len(data) - start:
            data += data[start : start + length]
        else:
            data += bytes(next(numbers) >> 56 for _ in range(length))
    digests: list[int] = []
    fresh = done = 0
    while done < size:
        end, rolling = done, 0
        while end < min(size, done + 65536):
            rolling = (rolling << 1) + gears[data[end]] & MASK
            end += 1
            if end - done >= 2048 and rolling >> 51 == 0:
                break
        digest = int.from_bytes(hashlib.sha256(data[done:end]).digest()[:8])
        fresh += (end - done) * (digest not in digests)
        digests.append(digest)
        done = end
    assert len(set(digests)) < len(digests)
    assert checksum_of("dedup", size=size) == (hashed(digests) + fresh) & MASK


@pytest.mark.parametrize("size", [1, 55, 56, 63, 64, 119, 120])
def test_dedup_pads_short_chunks(size: int) -> None:
    numbers = random_numbers(1)
    for _ in range(256 + 1):
        next(numbers)
    data = bytes(next(numbers) >> 56 for _ in range(size))
    digest = int.from_bytes(hashlib.sha256(data).digest()[:8])
    assert checksum_of("dedup", size=size) == (digest + size) & MASK
