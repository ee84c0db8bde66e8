// The life of messages through the npm library "cloudflare": the base URL and the token come from
// the environment variables that the library itself reads, CONTROL moves the server's clock.
// Exits with 0 when everything was as expected, and says how much that was.
import assert from 'node:assert/strict';
import Cloudflare from 'cloudflare';

const account_id = process.env.CLOUDFLARE_ACCOUNT_ID;
const start = Date.parse(process.env.START);
let sent = 0;
const client = new Cloudflare({
  fetch: (...args) => {
    sent++;
    return fetch(...args);
  },
});
const { queues } = client;
const { consumers, messages } = queues;

let checks = 0;
const same = (got, want, why) => {
  checks++;
  assert.deepEqual(got, want, why);
};
const holds = (value, why) => {
  checks++;
  assert.ok(value, why);
};

// refused requires an error answer after exactly one request: the library repeats none of these.
async function refused(call, kind, status, code) {
  const before = sent;
  const error = await call().then(
    () => assert.fail('no error'),
    (e) => e,
  );
  holds(error instanceof kind, `${error.constructor.name}: ${error.message}`);
  same(error.status, status);
  if (code !== undefined) same(error.errors[0].code, code);
  same(sent, before + 1, 'requests sent');
}

async function advance(seconds) {
  const body = JSON.stringify({ op: 'advance', by: `${seconds}s` });
  const answer = await fetch(process.env.CONTROL, { method: 'POST', body });
  assert.equal(answer.status, 200, await answer.text());
}

const pull = async (queue, params = {}) => (await messages.pull(queue, { account_id, ...params })).messages;

// arrive pulls until n messages came, by body; an answer may hold fewer than there are.
async function arrive(queue, n) {
  const got = {};
  for (let turn = 0; Object.keys(got).length < n; turn++) {
    assert.ok(turn < 1000, `${Object.keys(got)} of ${n} messages came`);
    for (const m of await pull(queue)) {
      assert.ok(!(m.body in got), `${m.body} was delivered twice`);
      got[m.body] = m;
    }
  }
  same(Object.keys(got).length, n);
  return got;
}

const nothing = async (queue) => same(await pull(queue), []);
const ack = (queue, acks, retries) =>
  messages.ack(queue, { account_id, acks: acks.map((lease_id) => ({ lease_id })), ...(retries && { retries }) });
const backlog = async (queue) => (await queues.getMetrics(queue, { account_id })).backlog_count;

// Create a queue and its consumer.
same((await queues.list({ account_id })).result, []);
const queue = await queues.create({ account_id, queue_name: 'jobs' });
const jobs = queue.queue_id;
holds(/^[0-9a-f]{32}$/.test(jobs));
same(queue.settings, { delivery_delay: 0, delivery_paused: false, message_retention_period: 345600 });
same(Date.parse(queue.created_on), start);
await refused(() => queues.create({ account_id, queue_name: 'jobs' }), Cloudflare.BadRequestError, 400, 11009);
await refused(() => pull(jobs), Cloudflare.APIError, 405, 0);
const settings = { batch_size: 10, max_retries: 1, retry_delay: 7, visibility_timeout_ms: 6000 };
const consumer = await consumers.create(jobs, { account_id, type: 'http_pull', dead_letter_queue: 'jobs-dead', settings });
const { consumer_id } = consumer;
same([consumer.type, consumer.queue_name, consumer.dead_letter_queue], ['http_pull', 'jobs', 'jobs-dead']);
same(consumer.settings, settings);
same(await consumers.get(consumer_id, { account_id, queue_id: jobs }), consumer);
same((await consumers.list(jobs, { account_id })).result, [consumer]);
await refused(() => consumers.create(jobs, { account_id, type: 'http_pull' }), Cloudflare.BadRequestError, 400, 11004);
const changed = { account_id, queue_id: jobs, type: 'http_pull', dead_letter_queue: 'jobs-dead', settings };
same(await consumers.update(consumer_id, changed), consumer);
const all = [];
for await (const q of queues.list({ account_id })) all.push(q);
same(all.map((q) => q.queue_name).sort(), ['jobs', 'jobs-dead']);
const dead = all.find((q) => q.queue_name === 'jobs-dead').queue_id;

// Push text and JSON, one by one and as a batch.
const pushed = await messages.push(jobs, { account_id, body: 'hello ✓', content_type: 'text' });
same(pushed.metadata.metrics.backlog_count, 1);
await messages.push(jobs, { account_id, body: { b: [1.5, '<x>', null], a: {} }, content_type: 'json' });
const batch = await messages.bulkPush(jobs, {
  account_id,
  delay_seconds: 20,
  messages: [
    { body: 'batch', content_type: 'text' },
    { body: 'now', content_type: 'text', delay_seconds: 0 },
    { body: { k: 'v' }, content_type: 'json', delay_seconds: 30 },
  ],
});
// The counts of pushes and pulls are best effort: only what they are at least is certain.
holds(batch.metadata.metrics.backlog_count >= 1);
const { backlog_bytes, ...metrics } = await queues.getMetrics(jobs, { account_id });
same(metrics, { backlog_count: 5, oldest_message_timestamp_ms: start });
holds(backlog_bytes > 50);
await refused(() => messages.bulkPush(jobs, { account_id, messages: [] }), Cloudflare.BadRequestError, 400, 10206);

// Pull; acknowledge one, give two back, one of them with a delay.
const json = Buffer.from('{"b":[1.5,"<x>",null],"a":{}}').toString('base64');
let got = await arrive(jobs, 3);
same(Object.keys(got).sort(), ['hello ✓', json, 'now'].sort());
same(got['hello ✓'].metadata, { 'CF-Content-Type': 'text', 'CF-sourceMessageSource': 'api' });
same(got[json].metadata['CF-Content-Type'], 'json');
same([got.now.attempts, got.now.timestamp_ms], [1, start]);
await nothing(jobs);
const first = await ack(jobs, [got['hello ✓'].lease_id, 'no lease'], [
  { lease_id: got.now.lease_id, delay_seconds: 10 },
  { lease_id: got[json].lease_id, delay_seconds: 0 },
]);
same([first.ackCount, first.retryCount, Object.keys(first.warnings)], [1, 2, ['no lease']]);
same(await backlog(jobs), 4);
got = await arrive(jobs, 1);
same(got[json].attempts, 2);
same((await ack(jobs, [got[json].lease_id])).ackCount, 1);
await advance(9);
await nothing(jobs);
await advance(1);

// Extend a lease, let it run out on its last delivery: the message goes to the dead letter queue.
got = await arrive(jobs, 1);
same(got.now.attempts, 2);
const extended = await client.post(`/accounts/${account_id}/queues/${jobs}/messages/extend`, {
  body: { extend: [{ lease_id: got.now.lease_id }], visibility_timeout_ms: 8000 },
});
same(extended.result, { extendCount: 1, warnings: {} });
await advance(7);
await nothing(jobs);
await advance(1);
for (let turn = 0; (await backlog(dead)) < 1; turn++) assert.ok(turn < 1000, 'nothing in the dead letter queue');
const seen = await messages.peek(dead, { account_id, batch_size: 2 });
same(seen.messages.map((m) => [m.id, m.body, m.attempts]), [[got.now.id, 'now', 0]]);
same((await messages.peek(dead, { account_id })).messages.length, 1);
const removed = await messages.purge(dead, { account_id, refs: [{ ref: seen.messages[0].ref }] });
same([removed.errors ?? [], removed.warnings ?? {}], [[], {}]);
same(await backlog(dead), 0);

// Pause, resume; acknowledge a batch that was pulled after its delay.
const paused = await queues.edit(jobs, { account_id, settings: { delivery_paused: true } });
same([paused.queue_name, paused.settings.delivery_paused], ['jobs', true]);
await refused(() => pull(jobs), Cloudflare.ConflictError, 409);
await queues.edit(jobs, { account_id, settings: { delivery_paused: false } });
await advance(12);
got = await arrive(jobs, 2);
const json2 = Buffer.from('{"k":"v"}').toString('base64');
same([got.batch.attempts, got[json2].metadata['CF-msg-delay-secs']], [1, '30']);
same((await ack(jobs, [got.batch.lease_id])).ackCount, 1);

// Purge and delete.
await messages.push(jobs, { account_id, body: ['an', 'array'] });
same((await queues.purge.start(jobs, { account_id, delete_messages_permanently: true })).queue_id, jobs);
same((await queues.purge.status(jobs, { account_id })).completed, 'true');
same(await backlog(jobs), 0);
await refused(() => queues.delete(dead, { account_id }), Cloudflare.BadRequestError, 400, 11005);
await consumers.delete(consumer_id, { account_id, queue_id: jobs });
await refused(() => consumers.get(consumer_id, { account_id, queue_id: jobs }), Cloudflare.NotFoundError, 404, 11002);
await queues.delete(dead, { account_id });
await queues.delete(jobs, { account_id });
await refused(() => queues.get(jobs, { account_id }), Cloudflare.NotFoundError, 404, 11000);
same((await queues.list({ account_id })).result, []);

console.log(`${checks} checks held, ${sent} requests sent`);
