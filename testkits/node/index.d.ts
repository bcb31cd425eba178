/** A NameServer and brokers: namesrv, broker-a, broker-b. A verb is done when its promise resolves. */
export class Cluster {
  /** For clients: host:port. */
  readonly namesrv: string;
  /** http://host:port; see docs/control.md. */
  readonly control: string;

  /** A cluster on free ports, with more options of `rmqemu up`; it ends with `close`, or with this process. */
  static start(...options: string[]): Promise<Cluster>;
  /** The cluster of a container; `port` gives the mapped port of a port. Brokers register their mapped ports. */
  static mapped(host: string, port: (inside: number) => number): Promise<Cluster>;

  /** As kill -9: the node does not unregister. */
  kill(node: string): Promise<void>;
  /** Starts a node that is stopped or dead, with its store; a broker is then in the route. */
  start(node: string): Promise<void>;
  stop(node: string): Promise<void>;
  restart(node: string): Promise<void>;
  /** As SIGSTOP: the node answers nothing. */
  pause(node: string): Promise<void>;
  resume(node: string): Promise<void>;
  /** No messages, no faults, all nodes running; clients stay connected. */
  reset(): Promise<void>;
  /** Delivers now the delayed messages and retries that are due within that time: "10m", or ms; their number. */
  advance(time: string | number): Promise<number>;
  /**
   * A topic with so many queues (4) on each broker that runs: ali-ons sends only to topics that exist. A reset removes it.
   * Resolves to these brokers; a line on standard error names the others.
   */
  createTopic(topic: string, queues?: number): Promise<string[]>;
  /** Likely mistakes of clients since the start or the last reset, a sentence each: see docs/pytest.md. */
  misuses(): Promise<string[]>;
  /** Lets a broker register another address for clients: host:port. */
  advertise(broker: string, address: string): Promise<void>;
  state(node: string): Promise<'starting' | 'running' | 'paused' | 'stopped' | 'dead'>;
  /** Begins a fault (docs/faults.md); the function that is returned ends it and undoes its change, if it holds. */
  fault(fault: { fault: string; [field: string]: unknown }): Promise<() => Promise<void>>;
  /** Any call of the control address; throws with the reason, and the HTTP `status`, if it is refused. */
  call(method: string, path: string, body?: unknown): Promise<any>;
  /** How its process has ended; empty while it runs. */
  readonly ending: string;
  close(): Promise<void>;
}

type Hook = (action: (...test: any[]) => Promise<void>) => void;

/**
 * A cluster for all tests of a file, empty at the start of each: `useCluster(require('node:test'))`, with
 * Jest `useCluster({ before: beforeAll, beforeEach, after: afterAll })`. When a test of node:test (20.12 or newer)
 * fails, the likely mistakes that the brokers have noticed in it are printed to standard error.
 */
export function useCluster(
  hooks: { before: Hook; beforeEach: Hook; afterEach?: Hook; after: Hook },
  start?: () => Promise<Cluster>,
): Cluster;
