import type { Server } from "node:http";
import type { AddressInfo } from "node:net";

/** Tells the bench where this server listens: one JSON line on stdout, the sign that it is ready. */
export function announce(server: Server): void {
  const { port } = server.address() as AddressInfo;
  console.log(JSON.stringify({ url: `http://127.0.0.1:${port}` }));
}

/**
 * Ends this process, after `stop`, on a signal and when its stdin closes: that pipe is the bench's hand, and
 * it opens even if the bench is killed outright.
 */
export function endWithParent(stop: () => Promise<void> | void): void {
  let isEnding = false;
  const end = async () => {
    if (isEnding) return;
    isEnding = true;
    try {
      await stop();
    } catch (error) {
      console.error(error);
      process.exitCode = 1;
    }
    process.exit();
  };
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.on(signal, () => void end());
  process.stdin.on("end", () => void end());
  process.stdin.on("error", () => void end());
  process.stdin.resume();
}

/** Prints, at SIGUSR2, what this process holds after a collection; it has to be started with `--expose-gc`. */
export function tellMemory(): void {
  process.on("SIGUSR2", () => {
    globalThis.gc?.();
    console.log(JSON.stringify(process.memoryUsage()));
  });
}
