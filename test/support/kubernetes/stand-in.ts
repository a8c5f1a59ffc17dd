import path from "node:path";

/** The root of a layer with an agent that plays one: it does what its ticket says. */
export const STAND_IN = path.join(import.meta.dirname, "stand-in");
