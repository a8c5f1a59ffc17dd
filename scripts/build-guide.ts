import { buildGuide } from "./guide/build.ts";

await buildGuide("dist/guide");
