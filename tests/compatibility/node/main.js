// Runs features of the official Node client, and prints one line of JSON for each.
//
// A feature is a check with a topic and a group of its own; all run at the same time, because most of their time is waiting.
//
//   NODE_PATH=FOLDER/node_modules node main.js NAMESRV PREFIX [FEATURE…]

'use strict';

const assert = require('assert');
const { Consumer, Producer, Message } = require('ali-ons');
const ConsumeFromWhere = require('ali-ons/lib/consumer/consume_from_where');

const [ nameSrv, prefix, ...wanted ] = process.argv.slice(2);
const FEATURE_MS_MAX = 60_000;
const WAIT_MS_MAX = 40_000;
const silent = { debug() {}, info() {}, warn() {}, error: text => console.error(text) };
const common = {
  nameSrv,
  httpclient: {}, // required, but used only with an address server
  logger: silent,
  clientIP: '127.0.0.1',
};
let clients = 0;

const features = {
  'send-sync': async lab => {
    const { sendStatus, queueOffset } = await (await lab.producer()).send(lab.message('sync'));
    assert.strictEqual(sendStatus, 'SEND_OK');
    const found = await (await lab.inbox()).takeOnly('sync');
    assert.strictEqual(Number(found.queueOffset), Number(queueOffset));
  },
  'send-by-selector': async lab => {
    const producer = await lab.producer();
    const queues = new Set();
    for (let i = 0; i < 3; i++) {
      const message = lab.message(`order ${i}`);
      message.shardingKey = 'order-7';
      queues.add((await producer.send(message)).messageQueue.queueId);
    }
    assert.strictEqual(queues.size, 1);
    await (await lab.inbox()).take(3);
  },
  'send-properties': async lab => {
    const message = lab.message('with properties', 'paid');
    message.keys = [ 'key-1', 'key-2' ];
    message.properties.colour = 'blau grün';
    await (await lab.producer()).send(message);
    const [ found ] = await (await lab.inbox()).take(1);
    assert.deepStrictEqual([ found.tags, found.keys, found.properties.colour ], [ 'paid', 'key-1 key-2', 'blau grün' ]);
  },
  'send-compressed': async lab => {
    const body = 'x'.repeat(20_000);
    await (await lab.producer({ compressMsgBodyOverHowmuch: 1000 })).send(lab.message(body));
    const found = await (await lab.inbox()).takeOnly(body);
    assert(found.storeSize < 2000, 'the stored message is not compressed');
  },
  'send-creates-topic': async lab => {
    const topic = `${lab.topic}-created`;
    await (await lab.producer()).send(new Message(topic, '', 'new'));
    await (await lab.inbox({}, '*', topic)).takeOnly('new');
  },
  'send-delay-level': async lab => {
    const message = lab.message('one second later');
    message.delayTimeLevel = 1;
    await (await lab.producer()).send(message);
    const found = await (await lab.inbox()).takeOnly('one second later');
    assert(Number(found.storeTimestamp) - Number(found.bornTimestamp) >= 900, 'delivered at once');
  },
  'send-deliver-at': async lab => {
    const message = lab.message('later');
    message.setStartDeliverTime(Date.now() + 3000);
    await (await lab.producer()).send(message);
    const found = await (await lab.inbox()).takeOnly('later');
    assert(Number(found.storeTimestamp) - Number(found.bornTimestamp) >= 1800, 'delivered at once');
  },
  'consume-concurrently': async lab => {
    await lab.send(40);
    await (await lab.inbox({ parallelConsumeLimit: 8 })).take(40);
  },
  'consume-broadcasting': async lab => {
    const inboxes = [ await lab.inbox({ isBroadcast: true }), await lab.inbox({ isBroadcast: true }) ];
    await lab.send(8);
    for (const inbox of inboxes) await inbox.take(8);
  },
  'consume-tags': async lab => {
    const producer = await lab.producer();
    for (const tag of [ 'open', 'paid', 'lost', 'sent' ]) await producer.send(lab.message(tag, tag));
    const found = await (await lab.inbox({}, 'paid || sent')).take(2);
    assert.deepStrictEqual(bodies(found), [ 'paid', 'sent' ]);
  },
  'consume-sql': async lab => {
    const producer = await lab.producer();
    for (const price of [ 5, 50, 7, 70 ]) {
      const message = lab.message(String(price));
      message.properties.price = String(price);
      await producer.send(message);
    }
    const found = await (await lab.inbox({}, { expressionType: 'SQL92', subString: 'price > 20' })).take(2);
    assert.deepStrictEqual(bodies(found), [ '50', '70' ]);
  },
  'consume-retry': async lab => {
    const inbox = await lab.inbox({}, '*', lab.topic, message => message.reconsumeTimes === 0 && Consumer.ACTION_RETRY);
    await lab.send(1);
    const found = await inbox.take(2);
    assert.deepStrictEqual(found.map(message => message.reconsumeTimes), [ 0, 1 ]);
  },
  'consume-dead-letter': async lab => {
    await lab.inbox({ maxReconsumeTimes: 0 }, '*', lab.topic, () => Consumer.ACTION_RETRY);
    await lab.send(1);
    const dead = { consumerGroup: `${lab.group}-dead` };
    await (await lab.inbox(dead, '*', `%DLQ%${lab.group}`)).takeOnly('0');
  },
  'consume-from-first': from('CONSUME_FROM_FIRST_OFFSET'),
  'consume-from-last': from('CONSUME_FROM_LAST_OFFSET'),
  'consume-from-timestamp': from('CONSUME_FROM_TIMESTAMP'),
  'consume-committed': async lab => {
    await lab.send(1);
    const before = await lab.inbox();
    await before.takeOnly('0');
    await pause(500); // the client marks a message as consumed after the listener has returned
    await before.client.close();
    await (await lab.producer()).send(lab.message('after'));
    await (await lab.inbox()).takeOnly('after');
  },
  'consume-shared': async lab => {
    const members = [ await lab.inbox(), await lab.inbox() ];
    const owned = ({ client }) => [ ...client.processQueueTable.values() ]
      .filter(({ messageQueue }) => messageQueue.topic === lab.topic).length;
    await until(() => members.every(member => owned(member) === 2), 'two queues each');
  },
  'namespace': async lab => {
    await (await lab.producer({ namespace: 'tenant' })).send(lab.message('of a tenant'));
    await (await lab.inbox({ namespace: 'tenant' })).takeOnly('of a tenant');
  },
};

function from(where) {
  return async lab => {
    await lab.send(1);
    await (await lab.inbox({ consumeFromWhere: ConsumeFromWhere[where] })).takeOnly('0');
  };
}

class Lab {
  constructor(name) {
    this.topic = this.group = name;
  }

  async producer(options = {}) {
    const instanceName = `${process.pid}-${++clients}`;
    const client = new Producer({ ...common, producerGroup: `${this.group}-producer`, instanceName, ...options });
    client.on('error', problem => console.error(problem));
    await client.ready();
    return client;
  }

  message(body, tag = '') {
    return new Message(this.topic, tag, body);
  }

  async send(count) {
    const producer = await this.producer();
    for (let i = 0; i < count; i++) await producer.send(this.message(String(i)));
  }

  async inbox(options = {}, filter = '*', topic = this.topic, answer = () => undefined) {
    const client = new Consumer({
      ...common,
      consumerGroup: this.group,
      instanceName: `${process.pid}-${++clients}`,
      consumeFromWhere: ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
      pollNameServerInteval: 1000,
      heartbeatBrokerInterval: 1000,
      persistConsumerOffsetInterval: 1000,
      rebalanceInterval: 1000,
      brokerSuspendMaxTimeMillis: 3000, // a client that closes waits for a held pull
      ...options,
    });
    client.on('error', problem => console.error(problem));
    const inbox = new Inbox(client);
    client.subscribe(topic, filter, async message => {
      inbox.found.push(message);
      return answer(message) || undefined;
    });
    await client.ready();
    return inbox;
  }
}

class Inbox {
  constructor(client) {
    this.client = client;
    this.found = [];
  }

  async take(count) {
    await until(() => this.found.length >= count, () => `${this.found.length} of ${count} messages came`);
    return this.found.splice(0, count);
  }

  async takeOnly(body) {
    const [ found ] = await this.take(1);
    assert.strictEqual(found.body.toString(), body);
    return found;
  }
}

const bodies = messages => messages.map(message => message.body.toString()).sort();

const pause = ms => new Promise(resolve => setTimeout(resolve, ms));

async function until(condition, what) {
  const end = Date.now() + WAIT_MS_MAX;
  while (!condition()) {
    if (Date.now() > end) throw new Error(`${typeof what === 'function' ? what() : what}: not within ${WAIT_MS_MAX} ms`);
    await pause(50);
  }
}

async function report(feature) {
  const late = pause(FEATURE_MS_MAX).then(() => { throw new Error(`not finished in ${FEATURE_MS_MAX} ms`); });
  let outcome = 'works';
  let why = '';
  try {
    await Promise.race([ features[feature](new Lab(`${prefix}-${feature}`)), late ]);
  } catch (problem) {
    outcome = 'fails';
    why = `${problem.name}: ${problem.message}`;
  }
  process.stdout.write(JSON.stringify({ feature, outcome, why }) + '\n');
}

process.on('unhandledRejection', problem => console.error(problem));
Promise.all(Object.keys(features).filter(name => !wanted.length || wanted.includes(name)).map(report))
  .then(() => process.exit(0));
