"""Pulls a batch and answers for it as a Python worker does: three acknowledged, one to be tried
again. Arguments: the base URL of the account's queue, and optionally a delay in seconds."""
import json
import sys
from urllib.request import ProxyHandler, Request, build_opener

queue, delay = sys.argv[1], sys.argv[2:]
opener = build_opener(ProxyHandler({}))


def post(path, body):
    request = Request(
        queue + path,
        method="POST",
        headers={"content-type": "application/json", "authorization": "Bearer any"},
        data=json.dumps(body).encode(),
    )
    with opener.open(request) as response:
        return json.load(response)["result"]


messages = post("/messages/pull", {"batch_size": 4, "visibility_timeout": 60000})["messages"]
one, two, three, four = (m["lease_id"] for m in messages)
retry = {"lease_id": four}
if delay:
    retry["delay_seconds"] = int(delay[0])
answer = post(
    "/messages/ack",
    {"acks": [{"lease_id": one}, {"lease_id": two}, {"lease_id": three}], "retries": [retry]},
)
print(json.dumps({"bodies": [m["body"] for m in messages], "answer": answer}))
