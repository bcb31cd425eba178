// RocketMQ clusters for tests, as processes of the emulator; no dependencies.
//
//   const cluster = useCluster(require('node:test'));   // started before the tests, empty in each
//   test('…', async () => { new Producer({ nameSrv: cluster.namesrv, … }); await cluster.kill('broker-b'); });
//
// The command rmqemu is found in the PATH, or by the variable RMQEMU.  A cluster ends with its process of
// tests, also if that is killed.  Test runners start a process for each file, so files have a cluster each.

'use strict';

const { spawn } = require('node:child_process');
const { statSync } = require('node:fs');
const readline = require('node:readline');

const CONTROL_PORT = 9875;
const NAMESRV_PORT = 9876;
const VERBS = ['kill', 'start', 'stop', 'restart', 'pause', 'resume'];

const READY_MS_MAX = 60_000;
const ANSWER_MS_MAX = 60_000;
const STOP_MS_MAX = 10_000;
const KEPT_CHARS_MAX = 1_000; // of what rmqemu writes to standard error, for messages

// A path with spaces, if there is such a file; otherwise words: python -m rocketmq_emulator.
function command() {
  const given = process.env.RMQEMU || 'rmqemu';
  return statSync(given, { throwIfNoEntry: false })?.isFile() ? [given] : given.trim().split(/\s+/);
}

function explained(error) {
  if (error.syscall === undefined) return error;
  const advice = 'put rmqemu in the PATH (a virtual environment that is not active hides it), or set RMQEMU to it';
  return new Error(`cannot run ${command()[0]}: ${advice}`, { cause: error });
}

function addresses(line) {
  try {
    const found = JSON.parse(line);
    if (found.namesrv) return found;
  } catch {} // as other JSON than expected
  throw new Error(`RMQEMU is ${command()}, which is no rmqemu: its first line is: ${line}`);
}

class Cluster {
  namesrv = ''; // for clients: host:port
  control = ''; // http://host:port
  #end = async () => {};
  #ending = ''; // how its process has ended

  static async start(...options) {
    const cluster = new Cluster();
    const [program, ...words] = command();
    const up = ['up', '--exit-with-parent', '--port', '0', ...options];
    const child = spawn(program, [...words, ...up], { stdio: ['ignore', 'pipe', 'pipe'] });
    let errors = '';
    child.stderr.on('data', text => (errors = (errors + text).slice(-KEPT_CHARS_MAX)));
    child.stderr.pipe(process.stderr, { end: false });
    const ended = new Promise(resolve => child.once('close', (code, signal) => {
      cluster.#ending = `rmqemu ${up.join(' ')} ended with ${signal ?? `code ${code}`}: ${errors.trim()}`;
      resolve();
    }));
    cluster.#end = async () => {
      child.stderr.unpipe(process.stderr).resume(); // what it says at its end is of no use
      child.kill();
      const late = setTimeout(() => child.kill('SIGKILL'), STOP_MS_MAX);
      await ended;
      clearTimeout(late);
    };
    const late = `rmqemu ${up.join(' ')} was not ready after ${READY_MS_MAX / 1000} s`;
    let timer;
    try {
      const line = await new Promise((resolve, reject) => {
        child.once('error', error => reject(explained(error)));
        readline.createInterface({ input: child.stdout }).once('line', resolve);
        ended.then(() => reject(new Error(cluster.#ending)));
        timer = setTimeout(() => reject(new Error(`${late}: ${errors.trim()}`)), READY_MS_MAX);
      });
      ({ namesrv: cluster.namesrv, control: cluster.control } = addresses(line));
    } catch (failed) {
      await cluster.#end();
      throw failed;
    } finally {
      clearTimeout(timer);
    }
    return cluster;
  }

  get ending() {
    return this.#ending;
  }

  static async mapped(host, port) {
    const cluster = new Cluster();
    cluster.namesrv = `${host}:${port(NAMESRV_PORT)}`;
    cluster.control = `http://${host}:${port(CONTROL_PORT)}`;
    const { nodes } = await cluster.call('GET', '/nodes');
    for (const { name, role, address } of nodes) {
      if (role === 'broker') {
        await cluster.advertise(name, `${host}:${port(Number(address.split(':').pop()))}`);
      }
    }
    return cluster;
  }

  async reset() {
    await this.call('POST', '/reset');
  }

  async advance(time) {
    return (await this.call('POST', '/advance', { time })).due_count;
  }

  async createTopic(topic, queues = 4) {
    const { brokers, warning } = await this.call('POST', '/topics', { topic, queues });
    if (warning) console.error(`createTopic: ${warning}`);
    return brokers;
  }

  async misuses() {
    return (await this.call('GET', '/misuses')).misuses.map(({ text }) => text);
  }

  async advertise(broker, address) {
    await this.call('POST', `/nodes/${broker}/advertise`, { address });
  }

  async state(node) {
    return (await this.call('GET', `/nodes/${node}`)).state;
  }

  async fault(fault) {
    const { fault_id: id } = await this.call('POST', '/faults', fault);
    return async () => {
      await this.call('DELETE', `/faults/${id}`).catch(error => {
        if (error.status !== 404) throw error; // it has ended already
      });
    };
  }

  async call(method, path, body) {
    const signal = AbortSignal.timeout(ANSWER_MS_MAX);
    const options = { method, signal, body: body === undefined ? undefined : JSON.stringify(body) };
    const answer = await fetch(this.control + path, options);
    const json = await answer.json();
    if (!answer.ok) {
      throw Object.assign(new Error(`${method} ${path}: ${json.error}`), { status: answer.status });
    }
    return json;
  }

  async close() {
    await this.#end();
  }
}

for (const verb of VERBS) {
  Cluster.prototype[verb] = async function (node) {
    await this.call('POST', `/nodes/${node}/${verb}`);
  };
}

// The object that is returned has the cluster's members once the hook `before` has run.
function useCluster({ before, beforeEach, afterEach, after }, start = () => Cluster.start()) {
  let running;
  before(async () => {
    running = await start();
  });
  beforeEach(async () => {
    if (running.ending) {
      console.error(`a new cluster is started, because ${running.ending}`);
      running = await start();
    }
    await running.reset();
  });
  afterEach?.(async (...[test]) => { // without named parameters: Jest takes one for a callback
    if (!test?.error) return; // the test has passed, or its runner does not say
    const texts = await running.misuses().catch(() => []); // a test can leave a broker that gives no answer
    for (const text of texts) console.error(`${test.name}: a likely mistake: ${text}`);
  });
  after(() => running && running.close());
  return new Proxy({}, {
    get(_, name) {
      if (!running) throw new Error('the cluster is started in the hook `before`: use it in a test');
      const member = running[name];
      return typeof member === 'function' ? member.bind(running) : member;
    },
  });
}

module.exports = { Cluster, useCluster };
