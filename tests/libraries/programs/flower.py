"""Flower's simulation: clients are actors of Ray; the average is what arithmetic says."""

import os

import numpy as np
from flwr.client import ClientApp, NumPyClient
from flwr.common import ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server import ServerApp, ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.simulation import run_simulation

CLIENTS, ROUNDS = 4, 3


class Client(NumPyClient):
    def __init__(self, number):
        self.number = number

    def fit(self, parameters, config):
        return [parameters[0] + self.number + 1], 10 * (self.number + 1), {}

    def evaluate(self, parameters, config):
        return float(parameters[0].sum()), 10, {"pid": os.getpid()}


def make_client(context):
    return Client(int(context.node_config["partition-id"])).to_client()


pids, models = set(), []


def gather(metrics):
    pids.update(found["pid"] for _, found in metrics)
    return {}


class Keeping(FedAvg):
    def aggregate_fit(self, server_round, results, failures):
        assert not failures, failures
        parameters, metrics = super().aggregate_fit(server_round, results, failures)
        models.append(parameters_to_ndarrays(parameters)[0])
        return parameters, metrics


def make_server(context):
    strategy = Keeping(
        min_available_clients=CLIENTS,
        initial_parameters=ndarrays_to_parameters([np.zeros(3)]),
        evaluate_metrics_aggregation_fn=gather,
    )
    return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=ROUNDS))


run_simulation(
    server_app=ServerApp(server_fn=make_server),
    client_app=ClientApp(client_fn=make_client),
    num_supernodes=CLIENTS,
    backend_config={"client_resources": {"num_cpus": 1}, "init_args": {"num_cpus": 2}},
)
# The same without Flower and without Ray: each round adds the average, weighted by the examples.
weights = np.arange(1, CLIENTS + 1)
model = np.zeros(3)
for found in models:
    model = model + np.average(weights, weights=10 * weights)
    np.testing.assert_allclose(found, model)
assert len(models) == ROUNDS
assert pids
assert os.getpid() not in pids
print(f"actors={len(pids)}")
