// Sends one message and consumes it, with the Node client (npm install ali-ons).
//
//   rmqemu topic create hello-node      # this client sends to topics that exist
//   node examples/node/hello.js 127.0.0.1:9876

'use strict';

const { Consumer, Message, Producer } = require('ali-ons');

const nameSrv = process.argv[2];
const logger = { debug() {}, info() {}, warn() {}, error: console.error };
const httpclient = {}; // only asked where a server of server addresses is used

async function main() {
  const producer = new Producer({ nameSrv, logger, httpclient, producerGroup: 'hello-node-writers' });
  await producer.ready();
  const result = await producer.send(new Message('hello-node', 'greeting', 'from Node'));
  console.log(result.sendStatus);
  await producer.close();

  const consumer = new Consumer({ nameSrv, logger, httpclient, consumerGroup: 'hello-node-readers' });
  const heard = new Promise(resolve => consumer.subscribe('hello-node', '*', async message => {
    console.log(message.body.toString());
    resolve();
  }));
  await heard;
  await consumer.close();
}

main().then(() => process.exit(0));
