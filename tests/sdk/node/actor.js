// The official Node client, controlled by lines of JSON: it reads commands from standard input and writes their results.
//
// The same lines as for the Java program: {"id":7,"do":"send",…} is answered by {"id":7,"result":…} or
// {"id":7,"error":"…"}; each consumed message is written as {"event":"consumed",…}. It checks nothing; the tests do.
//
//   NODE_PATH=FOLDER/node_modules node actor.js NAMESRV

'use strict';

const readline = require('readline');
const { Consumer, Producer, Message } = require('ali-ons');
const ConsumeFromWhere = require('ali-ons/lib/consumer/consume_from_where');

const silent = { debug() {}, info() {}, warn() {}, error: text => console.error(text) };
const common = {
  nameSrv: process.argv[2],
  httpclient: {}, // required, but used only with an address server
  logger: silent,
  clientIP: '127.0.0.1',
};
const producers = new Map();
const consumers = new Map();

const deeds = {
  'start producer': startProducer,
  'send': send,
  'stop producer': ({ producer }) => closed(producers, producer),
  'start consumer': startConsumer,
  'assigned': assigned,
  'stop consumer': ({ consumer }) => closed(consumers, consumer),
};

readline.createInterface({ input: process.stdin })
  .on('line', line => answer(JSON.parse(line)))
  .on('close', () => process.exit(0)); // the test has closed our input

async function answer(asked) {
  try {
    const deed = deeds[asked.do];
    if (!deed) throw new Error(`one of ${Object.keys(deeds)}, not ${asked.do}`);
    tell({ id: asked.id, result: await deed(asked) });
  } catch (problem) {
    tell({ id: asked.id, error: String(problem && problem.stack || problem) });
  }
}

function tell(line) {
  process.stdout.write(JSON.stringify(line) + '\n');
}

async function closed(started, name) {
  const client = started.get(name);
  started.delete(name);
  await client.close();
  return true;
}

// Sending -----------------------------------------------------------------------------

async function startProducer({ producer, group }) {
  const client = new Producer({ ...common, producerGroup: group, instanceName: `${process.pid}-${producer}` });
  client.on('error', problem => console.error(problem));
  await client.ready();
  producers.set(producer, client);
  return client.clientId;
}

// "sync" waits for each answer before it sends the next message, "async" sends all at once.
async function send({ producer, way, messages }) {
  const client = producers.get(producer);
  if (way === 'async') {
    return Promise.all(messages.map(given => sendOne(client, given)));
  }
  const results = [];
  for (const given of messages) results.push(await sendOne(client, given));
  return results;
}

async function sendOne(client, given) {
  const message = new Message(given.topic, given.tags, given.body);
  if (given.keys) message.keys = [ given.keys ];
  if (given.delay_level) message.delayTimeLevel = given.delay_level;
  Object.assign(message.properties, given.properties);
  const result = await client.send(message);
  return {
    status: result.sendStatus,
    offset_id: result.msgId,
    topic: result.messageQueue.topic,
    broker: result.messageQueue.brokerName,
    queue: Number(result.messageQueue.queueId),
    offset: result.queueOffset,
  };
}

// Consuming ---------------------------------------------------------------------------

// Messages with the keys in "refuse" are refused at their first delivery; "pause_ms" makes every call slow.
async function startConsumer(asked) {
  const client = new Consumer({
    ...common,
    consumerGroup: asked.group,
    instanceName: `${process.pid}-${asked.consumer}-${Date.now()}`, // two consumers of one group are two clients
    consumeFromWhere: ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    isBroadcast: Boolean(asked.broadcasting),
    rebalanceInterval: 500, // this client ignores requests of brokers
    brokerSuspendMaxTimeMillis: 3000, // and when it closes, it waits for a held pull
  });
  client.on('error', problem => console.error(problem));
  client.subscribe(asked.topic, asked.tags || '*', async (message, from) => consume(asked, message, from));
  await client.ready();
  consumers.set(asked.consumer, client);
  return client.clientId;
}

async function consume(asked, message, from) {
  const refused = message.reconsumeTimes === 0 && message.keys in (asked.refuse || {});
  await new Promise(resolve => setTimeout(resolve, asked.pause_ms || 0));
  tell({
    event: 'consumed',
    consumer: asked.consumer,
    refused,
    topic: message.topic,
    body: message.body.toString(),
    tags: message.tags,
    keys: message.keys,
    properties: message.properties,
    offset_id: message.msgId,
    broker: from && from.brokerName, // a retried message has no queue
    queue: message.queueId,
    offset: Number(message.queueOffset),
    reconsume_times: message.reconsumeTimes,
    stored_ms: Number(message.storeTimestamp),
    told_ms: Date.now(),
  });
  return refused ? Consumer.ACTION_RETRY : undefined;
}

function assigned({ consumer, topic }) {
  return [ ...consumers.get(consumer).processQueueTable.values() ]
    .filter(({ messageQueue }) => messageQueue.topic === topic)
    .map(({ messageQueue }) => ({ broker: messageQueue.brokerName, queue: messageQueue.queueId }));
}
