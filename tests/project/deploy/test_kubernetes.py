"""deploy/kubernetes: each manifest is one of Kubernetes' own schemas, and their names agree."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from evenkeel.extras import delta_package

FOLDER = Path(__file__).resolve().parents[3] / "deploy" / "kubernetes"
MANIFESTS = [
    manifest
    for file in sorted(FOLDER.glob("*.yaml"))
    for manifest in yaml.safe_load_all(file.read_text())
]
BY_KIND = {manifest["kind"]: manifest for manifest in MANIFESTS}
DATA = BY_KIND["ConfigMap"]["data"]
EXECUTOR = yaml.safe_load(DATA["executor.yaml"])
CONF = dict(re.findall(r"^(spark\.\S+)\s+(\S+)$", DATA["spark-defaults.conf"], re.M))
PAGE = FOLDER.parents[1] / "docs/how-to/clusters/kubernetes.md"
#: Of the releases whose schemas are at hand: an older one, and the newest.
RELEASES = ("1.34", "1.37")


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("manifest", [*MANIFESTS, EXECUTOR], ids=lambda m: m["kind"])
def test_a_manifest_is_right_by_the_schema_of_kubernetes(
    manifest: dict[str, Any], release: str
) -> None:
    kubernetes_validate.validate(manifest, release, strict=True)
    wrong = {**manifest, "metadatas": {}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, release, strict=True)


def test_all_that_a_driver_needs_is_there_by_the_same_names() -> None:
    assert set(BY_KIND) == {"ServiceAccount", "Role", "RoleBinding", "Service", "ConfigMap"}
    account, role, binding = (BY_KIND[k] for k in ("ServiceAccount", "Role", "RoleBinding"))
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert [s["name"] for s in binding["subjects"]] == [account["metadata"]["name"]]
    # A driver that ends deletes what has its label, also where it made none of them.
    ends = {
        r
        for rule in role["rules"]
        if "deletecollection" in rule["verbs"]
        for r in rule["resources"]
    }
    assert ends == {"pods", "configmaps", "services", "persistentvolumeclaims"}
    service = BY_KIND["Service"]
    assert service["spec"]["clusterIP"] == "None"
    assert CONF["spark.driver.host"] == service["metadata"]["name"]
    ports = {str(port["port"]) for port in service["spec"]["ports"]}
    assert ports == {CONF["spark.driver.port"], CONF["spark.driver.blockManager.port"]}
    (container,) = EXECUTOR["spec"]["containers"]
    assert container["name"] == CONF["spark.kubernetes.executor.podTemplateContainerName"]
    assert Path(CONF["spark.kubernetes.executor.podTemplateFile"]).name in DATA


@pytest.mark.parametrize("begins", ["# driver-pod.yaml\n", "metadata:\n"])
def test_a_pod_of_the_page_mounts_the_files_where_they_look_for_each_other(begins: str) -> None:
    """The pod of a trial is whole. Of the pod of an Airflow there is the part that it needs."""
    page = PAGE.read_text()
    (part,) = re.findall(rf"^```yaml\n({begins}.*?)^```", page, re.M | re.S)
    pod = {"apiVersion": "v1", "kind": "Pod", **yaml.safe_load(part)}
    (container,) = pod["spec"]["containers"]
    for release in RELEASES:
        kubernetes_validate.validate(pod, release, strict=True)
    (volume,), (mount,) = pod["spec"]["volumes"], container["volumeMounts"]
    assert volume["configMap"]["name"] == BY_KIND["ConfigMap"]["metadata"]["name"]
    assert mount["name"] == volume["name"]
    template = Path(CONF["spark.kubernetes.executor.podTemplateFile"])
    (conf,) = (one["value"] for one in container["env"] if one["name"] == "SPARK_CONF_DIR")
    assert conf == mount["mountPath"] == str(template.parent)
    assert pod["metadata"]["labels"] == BY_KIND["Service"]["spec"]["selector"]
    account = BY_KIND["ServiceAccount"]["metadata"]["name"]
    assert pod["spec"]["serviceAccountName"] == account
    assert f'cp -r "$CLONE/{FOLDER.parent.name}/{FOLDER.name}" manifests' in page
    assert "kubectl --namespace $NAMESPACE apply -f manifests" in page


def test_versions_are_those_of_the_checkout() -> None:
    spark = metadata.version("pyspark")
    assert CONF["spark.kubernetes.container.image"] == f"apache/spark:{spark}"
    delta, s3, log_store, _ = CONF["spark.jars.packages"].split(",")
    assert delta == delta_package(spark) and log_store.endswith(delta.rpartition(":")[2])
    # Those of docker-compose.yml's image.
    image = (FOLDER.parent / "Dockerfile").read_text()
    assert delta in image and s3 in image
