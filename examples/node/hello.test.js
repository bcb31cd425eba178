// Tests with a cluster that they start themselves: it is empty at the start of each, and one test kills a broker.
//
//   make -C examples/node test

'use strict';

const assert = require('node:assert/strict');
const test = require('node:test');
const { Message, Producer } = require('ali-ons');
const { Cluster, useCluster } = require('rocketmq-emulator-testkit');

const logger = { debug() {}, info() {}, warn() {}, error() {} };
const httpclient = {};

const producers = new Map(); // by NameServer; they stay connected when a cluster is reset

async function producerOf({ namesrv: nameSrv }) {
  if (!producers.has(nameSrv)) {
    const instanceName = nameSrv; // clients of one name share their NameServer, too
    const producer = new Producer({ nameSrv, instanceName, logger, httpclient, producerGroup: 'shop' });
    producer.on('error', () => {}); // of its timers, while a broker is dead
    await producer.ready();
    producers.set(nameSrv, producer);
  }
  return producers.get(nameSrv);
}

async function sent(cluster, count) {
  const producer = await producerOf(cluster);
  const results = [];
  for (let number = 0; number < count; number++) {
    results.push(await producer.send(new Message('orders', 'paid', 'two cups')));
  }
  return results;
}

test.describe('a shop', () => {
  const cluster = useCluster(test);

  for (const name of ['first', 'second']) {
    test.it(`finds nothing of another test: the ${name}`, async () => {
      await cluster.createTopic('orders');
      const [{ queueOffset }] = await sent(cluster, 1);
      assert.equal(queueOffset, 0);
    });
  }

  test.it('stores orders although a broker is dead', async () => {
    await cluster.createTopic('orders');
    const end = await cluster.fault({ fault: 'kill', node: 'broker-b', for: '1m' });
    assert.equal(await cluster.state('broker-b'), 'dead');
    const brokers = (await sent(cluster, 8)).map(({ messageQueue }) => messageQueue.brokerName);
    assert.deepEqual(new Set(brokers), new Set(['broker-a']));
    await end();
    assert.equal(await cluster.state('broker-b'), 'running');
    await end(); // of a fault that has ended: nothing happens
  });

  test.it('is given delayed messages when their time is advanced', async () => {
    await cluster.createTopic('orders');
    const message = new Message('orders', 'paid', 'two cups');
    message.delayTimeLevel = 16; // 30 min
    await (await producerOf(cluster)).send(message);
    assert.equal(await cluster.advance('20m'), 0);
    assert.equal(await cluster.advance('20m'), 1);
  });

  const printed = [];
  const print = console.error;

  test.it('fails', { todo: 'on purpose: the next test reads what it has printed' }, async () => {
    console.error = line => printed.push(line);
    await cluster.kill('broker-b');
    assert.deepEqual(await cluster.createTopic('tea'), ['broker-a']);
    const message = new Message('tea', 'paid', 'two cups');
    message.delayTimeLevel = 19; // of 18
    await (await producerOf(cluster)).send(message);
    assert.deepEqual(await cluster.misuses(), []);
  });

  test.it('is told of brokers without a topic, and of likely mistakes in a test that has failed', () => {
    console.error = print;
    assert.equal(printed.length, 2, printed.join('\n'));
    assert.equal(printed[0], 'createTopic: tea was not made on broker-b, which is dead: make it again when it runs');
    assert.match(printed[1], /^fails: a likely mistake: .* delay level 19, of 18/);
  });
});

// A cluster behind ports that are mapped, as by Testcontainers, whose container.getMappedPort(9876) MAPPED_PORTS
// stands for: 9876=32801,9875=32802,…
test('messages go through mapped ports', { skip: !process.env.MAPPED_PORTS }, async () => {
  const ports = Object.fromEntries(process.env.MAPPED_PORTS.split(',').map(pair => pair.split('=')));
  const cluster = await Cluster.mapped('localhost', inside => Number(ports[inside]));
  await cluster.reset();
  await cluster.createTopic('orders');
  for (const { sendStatus } of await sent(cluster, 8)) assert.equal(sendStatus, 'SEND_OK');
});
