import { pathToFileURL } from "node:url";
import { inject } from "vitest";

/** Stands in for `src/store/sqlite/thread-script.ts` where tests start services: the same sources, in one file. */
export const THREAD_SCRIPT = pathToFileURL(inject("threadScript"));
