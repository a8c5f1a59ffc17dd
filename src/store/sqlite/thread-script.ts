import { extname } from "node:path";

/** The body of a database thread: `.ts` from the sources, `.js` from the built package, as this file. */
export const THREAD_SCRIPT = new URL(`./thread${extname(import.meta.url)}`, import.meta.url);
