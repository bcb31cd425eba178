// Sends one message and consumes it, with the Node client (npm install ali-ons).
//
//   make -C examples/node run                 # or: make run NAMESRV=HOST:PORT

'use strict';

const { Consumer, Message, Producer } = require('ali-ons');

const nameSrv = process.argv[2];
const logger = { debug() {}, info() {}, warn() {}, error: console.error };
const httpclient = {}; // only used with an HTTP address server

async function main() {
  const producer = new Producer({ nameSrv, logger, httpclient, producerGroup: 'hello-node-writers' });
  await producer.ready();
  const result = await producer.send(new Message('hello-node', 'greeting', 'from Node'));
  console.log(result.sendStatus);
  await producer.close();

  const consumer = new Consumer({ nameSrv, logger, httpclient, consumerGroup: 'hello-node-readers' });
  const heard = new Promise(resolve => consumer.subscribe('hello-node', '*', async message => {
    console.log(message.body.toString());
    setImmediate(resolve); // a message counts as consumed once this function has returned
  }));
  await heard;
  await consumer.close();
}

main().then(() => process.exit(0));
