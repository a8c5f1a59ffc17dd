import { readFileSync } from "node:fs";
import path from "node:path";
import { writeFile } from "../../kit/files.ts";

/** In an environment's folder, in place of its packages: those are in an image. */
export const IMAGE_RECORD = "image.json";

/** An image that a build has made. */
export type ImageRecord = {
  /** As the tool knows it. */
  readonly id: string;
  readonly projectId: string;
  /** How its Python is called, for an app that offers functions; null for a server, which starts as it likes. */
  readonly python: string | null;
};

export async function writeImageRecord(environment: string, record: ImageRecord): Promise<void> {
  await writeFile(path.join(environment, IMAGE_RECORD), JSON.stringify(record));
}

/** The image that stands for an environment; null where it is a folder of packages. */
export function readImageRecord(environment: string | null): ImageRecord | null {
  if (environment === null) return null;
  try {
    // Only the service writes it.
    // oxlint-disable-next-line no-unsafe-type-assertion
    return JSON.parse(readFileSync(path.join(environment, IMAGE_RECORD), "utf8")) as ImageRecord;
  } catch {
    return null;
  }
}
