import { syncBuiltinESMExports } from "node:module";
import { DatabaseSync } from "node:sqlite";
import threads from "node:worker_threads";
import type { WorkerOptions } from "node:worker_threads";

// Loaded before a service, makes its SQLite never sync, whatever it asks for: shows that a test of power cuts
// can fail.

if (threads.isMainThread) {
  // Threads do not load what their process was told to load.
  threads.Worker = class extends threads.Worker {
    constructor(script: string | URL, options: WorkerOptions = {}) {
      super(script, { ...options, execArgv: ["--import", import.meta.url] });
    }
  };
  syncBuiltinESMExports();
} else {
  const { prototype } = DatabaseSync;
  const replace = (name: "exec" | "prepare", careful: string, careless: string): void => {
    const original: (this: DatabaseSync, statement: string) => unknown = Reflect.get(prototype, name);
    Reflect.set(prototype, name, function (this: DatabaseSync, statement: string) {
      return original.call(this, statement === careful ? careless : statement);
    });
  };
  replace("exec", "pragma synchronous = 2", "pragma synchronous = 0");
  replace("prepare", "pragma synchronous", "select 2");
}
