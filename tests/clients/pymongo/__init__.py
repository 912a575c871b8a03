"""A stand-in for ``pymongo``: databases of collections of documents, by the host of the URI."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import client_state
from pymongo.errors import AutoReconnect, BulkWriteError

Document = dict[str, Any]
_COMPARED = {"$gte": operator.ge, "$lte": operator.le, "$lt": operator.lt, "$gt": operator.gt}


class MongoClient:
    def __init__(self, uri: str) -> None:
        parts = urlsplit(uri)
        assert parts.scheme == "mongodb"
        self.host = parts.hostname

    def __enter__(self) -> MongoClient:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def load(self) -> dict[str, dict[str, list[Document]]]:
        found: dict[str, dict[str, list[Document]]] = client_state.load(f"mongo-{self.host}", {})
        return found

    def list_database_names(self) -> list[str]:
        return list(self.load())

    def __getitem__(self, name: str) -> Database:
        return Database(self, name)


class Database:
    def __init__(self, client: MongoClient, name: str) -> None:
        self.client, self.name = client, name

    def list_collection_names(self) -> list[str]:
        return list(self.client.load().get(self.name, {}))

    def command(self, name: str, collection: str) -> Document:
        assert name == "collStats"
        return {"avgObjSize": 40} if self[collection].documents() else {}

    def __getitem__(self, name: str) -> Collection:
        return Collection(self, name)


class Collection:
    def __init__(self, database: Database, name: str) -> None:
        self.database, self.name = database, name

    def documents(self) -> list[Document]:
        return self.database.client.load()[self.database.name][self.name]

    def find(self, condition: Document) -> Iterator[Document]:
        return (document for document in self.documents() if meets(document, condition))

    def aggregate(self, stages: list[Document], **options: Any) -> Iterator[Document]:
        client_state.counted("mongo-aggregate")
        if client_state.fails("mongo-read"):
            raise AutoReconnect("connection closed")
        found = self.documents()
        for stage in stages:
            ((name, value),) = stage.items()
            found = STAGES[name](found, value)
        return iter(found)

    def insert_many(self, documents: list[Document], ordered: bool = True) -> None:
        assert not ordered
        with client_state.changed(f"mongo-{self.database.client.host}", {}) as held:
            there = held[self.database.name][self.name]
            ids = {document["_id"] for document in there}
            faults = []
            breaks_off = client_state.load("break-off", 0)
            for index, document in enumerate(documents):
                if breaks_off and index == breaks_off:
                    client_state.store("break-off", 0)
                    raise AutoReconnect("connection closed")
                if document["_id"] in ids:
                    faults.append({"index": index, "code": 11000, "errmsg": "E11000 duplicate key"})
                    continue
                ids.add(document["_id"])
                there.append(dict(document))
        if faults:
            raise BulkWriteError({"writeErrors": faults})


def meets(document: Document, condition: Document) -> bool:
    for name, wanted in condition.items():
        if name == "$and":
            if not all(meets(document, one) for one in wanted):
                return False
        elif isinstance(wanted, dict):
            for compare, value in wanted.items():
                if compare == "$in":
                    if document[name] not in value:
                        return False
                elif not _COMPARED[compare](document[name], value):
                    return False
        elif document.get(name) != wanted:
            return False
    return True


def buckets(documents: list[Document], options: Document) -> list[Document]:
    assert options["groupBy"] == "$_id"
    ids = sorted(document["_id"] for document in documents)
    each = max(1, -(-len(ids) // options["buckets"]))
    cut = [ids[at : at + each] for at in range(0, len(ids), each)]
    return [
        {
            "_id": {
                "min": some[0],
                "max": cut[number + 1][0] if number + 1 < len(cut) else some[-1],
            },
            "count": len(some),
        }
        for number, some in enumerate(cut)
    ]


STAGES = {
    "$match": lambda found, condition: [one for one in found if meets(one, condition)],
    "$bucketAuto": buckets,
    "$project": lambda found, names: [{n: one[n] for n in names if names[n]} for one in found],
    "$limit": lambda found, number: found[:number],
}
