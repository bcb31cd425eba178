// RocketMQ clusters for tests, as processes of the emulator; no dependencies.
//
//   const cluster = useCluster(require('node:test'));   // started before the tests, empty in each
//   test('…', async () => { new Producer({ nameSrv: cluster.namesrv, … }); await cluster.kill('broker-b'); });
//
// The command rmqemu is found in the PATH, or by the variable RMQEMU.  A cluster ends with its process of
// tests, also if that is killed.  Test runners start a process for each file, so files have a cluster each.

'use strict';

const { execFile, spawn } = require('node:child_process');
const { mkdtempSync, rmSync } = require('node:fs');
const { tmpdir } = require('node:os');
const { join } = require('node:path');
const readline = require('node:readline');
const { promisify } = require('node:util');

const CONTROL_PORT = 9875;
const NAMESRV_PORT = 9876;
const VERBS = ['kill', 'start', 'stop', 'restart', 'pause', 'resume'];

function command() {
  return (process.env.RMQEMU || 'rmqemu').split(' ');
}

class Cluster {
  namesrv = ''; // for clients: host:port
  control = ''; // http://host:port
  #end = async () => {};

  static async start(...options) {
    const cluster = new Cluster();
    const store = mkdtempSync(join(tmpdir(), 'rocketmq'));
    const [program, ...words] = command();
    const up = ['up', '--exit-with-parent', '--port', '0', '--store', store];
    const child = spawn(program, [...words, ...up, ...options], { stdio: ['ignore', 'pipe', 'pipe'] });
    child.stderr.pipe(process.stderr, { end: false });
    const ended = new Promise((resolve, reject) => child.once('error', reject).once('close', resolve));
    ended.catch(() => {}); // raised by the race below
    const lines = readline.createInterface({ input: child.stdout });
    const ready = new Promise(resolve => lines.once('line', resolve));
    const line = await Promise.race([ready, ended]);
    if (typeof line !== 'string') {
      rmSync(store, { recursive: true });
      throw new Error('rmqemu up did not start; the reason is on standard error');
    }
    ({ namesrv: cluster.namesrv, control: cluster.control } = JSON.parse(line));
    cluster.#end = async () => {
      child.stderr.unpipe(process.stderr).resume(); // what it says at its end is of no use
      child.kill();
      await ended;
      rmSync(store, { recursive: true });
    };
    return cluster;
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
    await this.call('POST', '/advance', { time });
  }

  async createTopic(topic, queues = 4) {
    const [program, ...words] = command();
    const create = ['topic', 'create', topic, '--queues', String(queues), '-n', this.namesrv];
    await promisify(execFile)(program, [...words, ...create]);
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
      await this.call('DELETE', `/faults/${id}`);
    };
  }

  async call(method, path, body) {
    const options = { method, body: body === undefined ? undefined : JSON.stringify(body) };
    const answer = await fetch(this.control + path, options);
    const json = await answer.json();
    if (!answer.ok) throw new Error(`${method} ${path}: ${json.error}`);
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
function useCluster({ before, beforeEach, after }, start = () => Cluster.start()) {
  let running;
  before(async () => {
    running = await start();
  });
  beforeEach(() => running.reset());
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
