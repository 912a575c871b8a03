"""``ray kuberay-autoscaler``: has KubeRay's operator start and end the pods of one RayCluster.

The operator does it; this only patches ``replicas`` and ``workersToDelete`` in the resource, as the program
of the same name in Ray's image does. It runs beside the head, in the head's pod.
"""

from __future__ import annotations

import argparse
import http.client
import json
import logging
import math
import os
import signal
import ssl
import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from heliostat.autoscaler.head import HttpHead
from heliostat.autoscaler.loop import Autoscaler
from heliostat.autoscaler.model import Failure, Instance, NodeType
from heliostat.core.errors import AuthenticationError
from heliostat.core.platform import auth

logger = logging.getLogger(__name__)

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
IDLE_TIMEOUT_S = 60.0
# How long an answer of Kubernetes may take, in seconds.
_ANSWER_S = 30.0
# With `upscalingMode: Conservative`: so many may be on their way, or as many as there are.
_LAUNCHES_MAX = 5
_GROUP_LABEL = "ray.io/group"
# The label of the replica that a pod belongs to, in a group of several hosts: the operator's since 1.5.
_REPLICA_LABEL = "ray.io/worker-group-replica-name"
# Kubernetes' names of resources, and those of nodes.
_DEVICES = {"google.com/tpu": "TPU", "aws.amazon.com/neuroncore": "neuron_cores"}


class Kubernetes:
    """The API server of the cluster that this pod runs in.

    Every method raises ``OSError`` where it does not answer as hoped.
    """

    def __init__(self, host: str, port: int, account: Path = ACCOUNT) -> None:
        self._address = (host, port)
        self._account = account
        self._context = ssl.create_default_context(cafile=str(account / "ca.crt"))

    @classmethod
    def of_this_pod(cls) -> Kubernetes:
        """The API server that every pod is told of. Raises ``OSError`` where there is no service account."""
        host = os.environ.get("KUBERNETES_SERVICE_HOST", "kubernetes.default")
        port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        return cls(host, int(port))

    def get(self, path: str) -> Any:
        """A resource, or a list of some."""
        return self._ask("GET", path, None, "application/json")

    def patch(self, path: str, steps: Sequence[Mapping[str, Any]]) -> Any:
        """Change a resource by a JSON patch."""
        return self._ask("PATCH", path, list(steps), "application/json-patch+json")

    def _ask(self, method: str, path: str, body: Any, kind: str) -> Any:
        # Read each time: Kubernetes replaces it every hour.
        token = (self._account / "token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        data = None
        if body is not None:
            data, headers["Content-Type"] = json.dumps(body).encode(), kind
        host, port = self._address
        link = http.client.HTTPSConnection(host, port, timeout=_ANSWER_S, context=self._context)
        try:
            link.request(method, path, data, headers)
            answer = link.getresponse()
            said = answer.read()
            if answer.status // 100 != 2:
                text = said.decode(errors="replace")[:500]
                raise OSError(f"Kubernetes: {method} {path}: {answer.status}: {text}")
            return json.loads(said)
        except (http.client.HTTPException, ValueError) as error:
            raise OSError(f"Kubernetes: {method} {path}: {error!r}") from error
        finally:
            link.close()


class KubeRay:
    """The pods of one RayCluster."""

    def __init__(self, kubernetes: Kubernetes, name: str, namespace: str) -> None:
        self._kubernetes = kubernetes
        version = os.environ.get("KUBERAY_CRD_VER", "v1")
        self._path = f"/apis/ray.io/{version}/namespaces/{namespace}/rayclusters/{name}"
        self._pods_path = (
            f"/api/v1/namespaces/{namespace}/pods?labelSelector=ray.io%2Fcluster%3D{name}"
        )
        self._cluster: dict[str, Any] = {}
        self._pods: dict[str, Instance] = {}
        self._n_ready = 0

    # --- what there is, as it was read last

    def types(self) -> dict[str, NodeType]:
        """Reads the resource and its pods: the groups of workers."""
        self._read()
        found = [_type_of(group) for group in self._groups()]
        return {one.name: one for one in found}

    def _read(self) -> None:
        self._cluster = self._kubernetes.get(self._path)
        pods = [
            pod
            for pod in self._kubernetes.get(self._pods_path)["items"]
            if "deletionTimestamp" not in pod["metadata"]
            and pod.get("status", {}).get("phase") not in ("Failed", "Succeeded")
        ]
        self._pods = {pod["metadata"]["name"]: self._instance(pod["metadata"]) for pod in pods}
        groups = {group["groupName"] for group in self._groups()}
        ready = [pod for pod in pods if _is_ready(pod)]
        self._n_ready = sum(self._pods[pod["metadata"]["name"]].type in groups for pod in ready)

    def _instance(self, pod: Mapping[str, Any]) -> Instance:
        group, name = pod["labels"].get(_GROUP_LABEL, ""), pod["name"]
        hosts = {one["groupName"]: one.get("numOfHosts") or 1 for one in self._groups()}
        is_one_of_several = hosts.get(group, 1) > 1
        return Instance(
            name, group, pod["labels"].get(_REPLICA_LABEL, "") if is_one_of_several else ""
        )

    def _groups(self) -> list[dict[str, Any]]:
        groups: list[dict[str, Any]] = self._cluster["spec"].get("workerGroupSpecs") or []
        return [group for group in groups if not group.get("suspend")]

    def idle_timeout_s(self) -> float:
        """``idleTimeoutSeconds`` of ``autoscalerOptions``."""
        return float(self._options().get("idleTimeoutSeconds", IDLE_TIMEOUT_S))

    def joined(self, instances: Collection[str]) -> None:
        """The operator looks after its pods."""

    def failures(self) -> list[Failure]:
        """None that others do not tell: Kubernetes' events do."""
        return []

    def more_max(self) -> int | None:
        """With ``upscalingMode: Conservative`` no more may be on their way than are ready."""
        if self._options().get("upscalingMode") != "Conservative":
            return None
        on_their_way = sum(self.asked().values()) - self._n_ready
        return max(max(_LAUNCHES_MAX, self._n_ready) - on_their_way, 0)

    def _options(self) -> dict[str, Any]:
        return self._cluster["spec"].get("autoscalerOptions") or {}

    def asked(self) -> dict[str, int]:
        """The replicas of each group, within its bounds."""
        return {
            group["groupName"]: _replicas(group) * (group.get("numOfHosts") or 1)
            for group in self._groups()
        }

    def instances(self) -> list[Instance]:
        """Pods that are not to be deleted."""
        doomed = {name for group in self._groups() for name in _doomed(group)}
        groups = {group["groupName"] for group in self._groups()}
        return [
            pod for name, pod in self._pods.items() if name not in doomed and pod.type in groups
        ]

    # --- what is to be done

    def launch(self, wanted: Mapping[str, int]) -> None:
        """Raise the replicas of groups."""
        self._change(wanted, [])

    def terminate(self, instances: Sequence[Instance]) -> None:
        """Lower the replicas, and name the pods."""
        self._change({}, instances)

    def _change(self, more: Mapping[str, int], fewer: Sequence[Instance]) -> None:
        # From what is there now: the resource may have been changed by hand.
        self._read()
        steps: list[dict[str, Any]] = []
        groups = self._cluster["spec"].get("workerGroupSpecs") or []
        for index, group in enumerate(groups):
            name, path = group["groupName"], f"/spec/workerGroupSpecs/{index}"
            going = [one.id for one in fewer if one.type == name and one.id in self._pods]
            hosts = group.get("numOfHosts") or 1
            replicas = _replicas(group)
            n_fewer = len({self._pods[one].unit or one for one in going})
            wanted = replicas + math.ceil(more.get(name, 0) / hosts) - n_fewer
            wanted = min(max(wanted, group.get("minReplicas", 0)), group.get("maxReplicas", wanted))
            # Those that were named before are named until they are gone: a patch says all of them.
            before = _doomed(group)
            doomed = [one for one in before if one in self._pods] + going
            if wanted != group.get("replicas") or doomed != before:
                # Two who change the same group do not undo what the other did.
                steps.append({"op": "test", "path": f"{path}/groupName", "value": name})
            if wanted != group.get("replicas"):
                steps.append({"op": "add", "path": f"{path}/replicas", "value": wanted})
            if doomed != before:
                value = {**(group.get("scaleStrategy") or {}), "workersToDelete": doomed}
                steps.append({"op": "add", "path": f"{path}/scaleStrategy", "value": value})
        if steps:
            self._cluster = self._kubernetes.patch(self._path, steps)


def _is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions") or []
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def _doomed(group: Mapping[str, Any]) -> list[str]:
    return list((group.get("scaleStrategy") or {}).get("workersToDelete") or [])


def _replicas(group: Mapping[str, Any]) -> int:
    """The replicas of the groups in the form that the operator takes."""
    least, most = group.get("minReplicas", 0), group.get("maxReplicas")
    wanted = max(group.get("replicas") or 0, least)
    return int(wanted if most is None else min(wanted, most))


def _type_of(group: Mapping[str, Any]) -> NodeType:
    """Return the resources that a pod of that group will offer as a node."""
    hosts = group.get("numOfHosts") or 1
    idle = group.get("idleTimeoutSeconds")
    labels = {str(key): str(value) for key, value in (group.get("labels") or {}).items()}
    return NodeType(
        name=group["groupName"],
        resources=_resources_of(group),
        labels=labels,
        least=int(group.get("minReplicas", 0)) * hosts,
        most=int(group.get("maxReplicas", sys.maxsize // hosts)) * hosts,
        idle_timeout_s=None if idle is None else float(idle),
        batch=hosts,
    )


def _resources_of(group: Mapping[str, Any]) -> dict[str, float]:
    container = group["template"]["spec"]["containers"][0].get("resources") or {}
    limits, requests = container.get("limits") or {}, container.get("requests") or {}
    params, named = group.get("rayStartParams") or {}, group.get("resources") or {}
    found: dict[str, float] = {}
    cpus = named.get("CPU", params.get("num-cpus", limits.get("cpu", requests.get("cpu"))))
    if cpus is not None:
        found["CPU"] = math.ceil(quantity(cpus))
    memory = named.get("memory", params.get("memory", limits.get("memory")))
    if memory is not None:
        found["memory"] = quantity(memory)
    gpus = [value for key, value in sorted(limits.items()) if _is_gpu(key)]
    if "GPU" in named or "num-gpus" in params or gpus:
        found["GPU"] = quantity(named.get("GPU", params.get("num-gpus", (gpus or [0])[0])))
    for key, name in _DEVICES.items():
        if key in limits:
            found[name] = quantity(limits[key])
    # The operator passes it through a shell, so it has quotes.
    text = str(params.get("resources", "")).strip("'\"` ").replace('\\"', '"')
    if text:
        found |= {str(key): float(value) for key, value in json.loads(text).items()}
    known = ("CPU", "GPU", "memory")
    found |= {str(key): quantity(value) for key, value in named.items() if key not in known}
    return {key: value for key, value in found.items() if value > 0}


def _is_gpu(key: str) -> bool:
    return key.endswith("gpu") or key.startswith("nvidia.com/mig-")


def quantity(text: Any) -> float:
    """Return the number that Kubernetes writes as ``500m``, ``2Gi``, ``1e3`` or ``4``."""
    units = {"m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
    units |= {f"{letter}i": 1024.0 ** (place + 1) for place, letter in enumerate("KMGTPE")}
    words = str(text).strip()
    for unit in sorted(units, key=len, reverse=True):
        if words.endswith(unit):
            return float(words[: -len(unit)]) * units[unit]
    return float(words)


def main(arguments: Sequence[str]) -> int:
    """Work until SIGTERM or SIGINT."""
    name, *rest = arguments
    parser = argparse.ArgumentParser(f"{name} kuberay-autoscaler", description=__doc__)
    parser.add_argument("--cluster-name", required=True, help="name of the RayCluster")
    parser.add_argument("--cluster-namespace", required=True, help="its namespace")
    parser.add_argument("--gcs-address", help="accepted for Ray's sake: the head is in this pod")
    parser.add_argument(
        "--dashboard-address",
        default=f"127.0.0.1:{os.environ.get('RAY_DASHBOARD_PORT', '8265')}",
        help="where the head's dashboard is [default: port 8265 of this pod]",
    )
    options = parser.parse_args(rest)
    logging.basicConfig(
        stream=sys.stdout, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    cluster = KubeRay(Kubernetes.of_this_pod(), options.cluster_name, options.cluster_namespace)
    head = HttpHead(options.dashboard_address, _token(over))
    logger.info("Scales %s/%s.", options.cluster_namespace, options.cluster_name)
    Autoscaler(head, cluster).run(over.wait)
    return 0


def _token(over: threading.Event) -> str:
    """The cluster's token; a head that makes one may do so later."""
    said = ""
    while not over.is_set():
        try:
            return auth.token(create=False)
        except AuthenticationError as error:
            if str(error) != said:
                said = str(error)
                logger.info("Waits for the cluster's token: %s", said)
            over.wait(1)
    return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
