import { syncBuiltinESMExports, createRequire } from "node:module";
import { DatabaseSync } from "node:sqlite";
import { isMainThread } from "node:worker_threads";

// Loaded before a service, makes its SQLite never sync, whatever it asks for: shows that a test of power cuts
// can fail.

const threads = createRequire(import.meta.url)("node:worker_threads") as typeof import("node:worker_threads");

if (isMainThread) {
  // Threads do not load what their process was told to load.
  threads.Worker = class extends threads.Worker {
    constructor(script: string | URL, options: import("node:worker_threads").WorkerOptions = {}) {
      super(script, { ...options, execArgv: ["--import", import.meta.url] });
    }
  };
  syncBuiltinESMExports();
} else {
  const { exec, prepare } = DatabaseSync.prototype;
  DatabaseSync.prototype.exec = function (statement) {
    exec.call(this, statement === "pragma synchronous = 2" ? "pragma synchronous = 0" : statement);
  };
  DatabaseSync.prototype.prepare = function (statement) {
    return prepare.call(this, statement === "pragma synchronous" ? "select 2" : statement);
  };
}
