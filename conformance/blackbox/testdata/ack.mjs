// Pulls a batch and answers for it as a JavaScript worker does: three acknowledged, one to be
// tried again. Arguments: the base URL of the account's queue, and optionally a delay in seconds.
const [queue, delay] = process.argv.slice(2);

async function post(path, body) {
  const response = await fetch(queue + path, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: "Bearer any" },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return (await response.json()).result;
}

const { messages } = await post("/messages/pull", { batch_size: 4, visibility_timeout: 60000 });
const [one, two, three, four] = messages.map((m) => m.lease_id);
const retry = delay === undefined ? { lease_id: four } : { lease_id: four, delay_seconds: Number(delay) };
const answer = await post("/messages/ack", {
  acks: [{ lease_id: one }, { lease_id: two }, { lease_id: three }],
  retries: [retry],
});
console.log(JSON.stringify({ bodies: messages.map((m) => m.body), answer }));
