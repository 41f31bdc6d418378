# SPDX-License-Identifier: GPL-2.0-or-later
"""Does a service get a remedy's variables and pages as they are, wherever it is deployed?"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from builders.review import HOSTILE, by_hugetlbfs, by_malloc, by_pool, pooled, worth_it
from tlbcost.remedies.remedy import Remedy
from tlbcost.review.deployment import Snippet, snippets

ODD = "a \"b\" \\ %n $HOME $(x) ${y} #z: 'q'"


def remedy(**variables: str) -> Remedy:
    return replace(worth_it().what_to_do[0].remedies[0], environment=variables)


def pool(pages: int, page_bytes: int) -> Remedy:
    return pooled(remedy(), pages, page_bytes)


def by_place(found: tuple[Snippet, ...]) -> dict[str, Snippet]:
    return {each.place: each for each in found}


def test_remedies_of_an_allocator_have_their_variables() -> None:
    (first, *_) = worth_it().what_to_do[0].remedies
    assert first.environment == {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
    places = by_place(snippets(first, "cache", 1))
    assert places["systemd"].text == (
        '[Service]\nEnvironment="GLIBC_TUNABLES=glibc.malloc.hugetlb=1"'
    )
    assert places["Dockerfile"].text == 'ENV GLIBC_TUNABLES="glibc.malloc.hugetlb=1"'


def test_what_has_no_variables_and_no_pool_has_no_lines() -> None:
    assert snippets(remedy(), "cache", 1) == ()


def test_values_are_quoted_by_each_files_rules() -> None:
    places = by_place(snippets(remedy(NAME=ODD), "cache", 1))
    (line,) = places["systemd"].text.splitlines()[1:]
    quoted = re.fullmatch(r'Environment="NAME=(.*)"', line)
    assert quoted is not None
    # What systemd.syntax(7) and systemd.unit(5) undo.
    assert re.sub(r"\\(.)", r"\1", quoted[1]).replace("%%", "%") == ODD
    compose = yaml.safe_load(places["Compose"].text)
    assert compose["environment"]["NAME"].replace("$$", "$") == ODD
    (variable,) = yaml.safe_load(places["Kubernetes"].text)["env"]
    assert variable["name"] == "NAME"
    assert variable["value"].replace("$$(", "$(") == ODD
    docker = re.fullmatch(r'ENV NAME="(.*)"', places["Dockerfile"].text)
    assert docker is not None
    assert re.sub(r"\\(.)", r"\1", docker[1]) == ODD


def test_systemd_takes_the_drop_in(tmp_path: Path) -> None:
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip("needs systemd-analyze")
    unit = tmp_path / "tlbcost-test.service"
    unit.write_text("[Service]\nExecStart=/bin/true\n", encoding="utf-8")
    snippet = by_place(snippets(remedy(NAME=ODD, OTHER="1"), "tlbcost-test", 1))["systemd"]
    drop_in = tmp_path / Path(snippet.file).relative_to("/etc/systemd/system")
    drop_in.parent.mkdir()
    drop_in.write_text(snippet.text + "\n", encoding="utf-8")
    done = subprocess.run([tool, "verify", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    # What is wrong in a drop-in is noticed there.
    drop_in.write_text(snippet.text.replace("Environment", "Surroundings") + "\n", encoding="utf-8")
    done = subprocess.run([tool, "verify", unit], capture_output=True, text=True, check=False)
    assert "Unknown key" in done.stderr


@pytest.mark.parametrize("name", ["../../etc/passwd", HOSTILE, "...", "a/b", ""])
def test_a_services_name_is_no_path(name: str) -> None:
    file = by_place(snippets(remedy(NAME="1"), name, 1))["systemd"].file
    assert re.fullmatch(
        r"/etc/systemd/system/[A-Za-z0-9:_][A-Za-z0-9:_.-]*\.service\.d/huge-pages\.conf", file
    )
    assert len(file) < 200


def test_a_pool_is_of_all_instances_of_a_host() -> None:
    places = by_place(snippets(pool(100, 2 << 20), "cache", 3))
    assert places["sysctl"].text == "vm.nr_hugepages = 300"
    assert places["kernel command line"].text == "hugepagesz=2M hugepages=300"
    resources = yaml.safe_load(places["Kubernetes"].text)["resources"]
    assert resources["limits"] == resources["requests"] == {"hugepages-2Mi": "200Mi"}


def test_a_pool_of_large_pages() -> None:
    places = by_place(snippets(pool(2, 1 << 30), "cache", 1))
    assert "sysctl" not in places
    assert places["kernel command line"].text == "hugepagesz=1G hugepages=2"
    resources = yaml.safe_load(places["Kubernetes"].text)["resources"]
    assert resources["limits"] == {"hugepages-1Gi": "2048Mi"}


QUANTITY = {"type": "string", "pattern": "^[1-9][0-9]*(Ki|Mi|Gi)$"}
RESOURCES = {
    "type": "object",
    "properties": {"memory": QUANTITY},
    "patternProperties": {"^hugepages-[1-9][0-9]*(Ki|Mi|Gi)$": QUANTITY},
    "additionalProperties": False,
}
LABEL = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"}


def record(required: list[str], **properties: object) -> dict[str, object]:
    return {
        "type": "object", "properties": properties, "required": required,
        "additionalProperties": False,
    }  # fmt: skip


def many(items: object) -> dict[str, object]:
    return {"type": "array", "items": items, "minItems": 1}


# The fields that the API's reference documents for a Pod, of those used here.
VARIABLE = record(
    ["name", "value"],
    name={"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}, value={"type": "string"},
)  # fmt: skip
MOUNT = record(
    ["name", "mountPath"], name=LABEL, mountPath={"type": "string", "pattern": "^/[^:]*$"}
)
CONTAINER = record(
    ["name", "image"], name=LABEL, image={"type": "string"}, env=many(VARIABLE),
    resources=record([], limits=RESOURCES, requests=RESOURCES), volumeMounts=many(MOUNT),
)  # fmt: skip
MEDIUM = {"type": "string", "pattern": "^HugePages-[1-9][0-9]*(Ki|Mi|Gi)$"}
VOLUME = record(["name", "emptyDir"], name=LABEL, emptyDir=record(["medium"], medium=MEDIUM))
POD = record(["containers"], containers=many(CONTAINER), volumes=many(VOLUME))
# https://docs.docker.com/reference/compose-file/services/#environment, as a map
COMPOSE = record([], environment={"type": "object", "additionalProperties": {"type": "string"}})


def pod_of(found: tuple[Snippet, ...]) -> dict[str, Any]:
    """A Pod with the lines in their places; the memory that Kubernetes asks for as well."""
    container: dict[str, Any] = {"name": "app", "image": "app:1"}
    pod: dict[str, Any] = {"containers": [container]}
    for each in found:
        if each.place == "Kubernetes":
            (pod if "spec of the Pod" in each.file else container).update(yaml.safe_load(each.text))
    if "resources" in container:
        container["resources"]["requests"]["memory"] = "64Mi"
    return pod


REMEDIES = {
    "variables": by_malloc(),
    "odd": replace(by_malloc(), environment={"NAME": ODD, "OTHER": "yes"}),
    "pool": by_pool(),
    "hugetlbfs": by_hugetlbfs(),
    "gigabytes": pooled(by_hugetlbfs(), 4, 1 << 30),
}


@pytest.mark.parametrize("name", REMEDIES)
def test_a_pod_and_a_compose_service_have_documented_fields_alone(name: str) -> None:
    found = snippets(REMEDIES[name], "cache", 2)
    pod = pod_of(found)
    jsonschema.validate(pod, POD)
    (container,) = pod["containers"]
    resources = container.get("resources", {"limits": {}, "requests": {}})
    # Huge pages cannot be overcommitted: limits are requests.
    asked = {k: v for k, v in resources["requests"].items() if k != "memory"}
    assert asked == resources["limits"]
    mounts = {mount["name"] for mount in container.get("volumeMounts", [])}
    assert mounts == {volume["name"] for volume in pod.get("volumes", [])}
    for volume in pod.get("volumes", []):
        size = volume["emptyDir"]["medium"].removeprefix("HugePages-")
        assert f"hugepages-{size}" in resources["limits"]
    assert bool(mounts) == (name in ("hugetlbfs", "gigabytes"))
    for each in found:
        if each.place == "Compose":
            jsonschema.validate(yaml.safe_load(each.text), COMPOSE)


def test_what_a_remedy_mounts_is_a_volume_at_the_same_place() -> None:
    pod = pod_of(snippets(by_hugetlbfs(), "cache", 1))
    (mount,) = pod["containers"][0]["volumeMounts"]
    assert by_hugetlbfs().steps[1].endswith(mount["mountPath"])
    assert pod["volumes"][0]["emptyDir"] == {"medium": "HugePages-2Mi"}


def test_a_shell_exports_the_value_as_it_is() -> None:
    text = by_place(snippets(remedy(NAME=ODD), "cache", 1))["shell"].text
    done = subprocess.run(
        ["/bin/sh", "-c", f'{text}\nprintf "%s" "$NAME"'],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == ODD


def test_each_has_its_documentation() -> None:
    both = replace(pool(1, 2 << 20), environment={"NAME": "1"})
    for each in snippets(both, "cache", 1):
        assert each.source.startswith("https://")
