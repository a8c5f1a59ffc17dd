import * as z from "zod/mini";
import { TIMESTAMP } from "./common.ts";

const ENTRY = z.object({
  name: z.string(),
  is_folder: z.boolean(),
  size_bytes: z.int(),
  last_modified: TIMESTAMP,
});
export type FileEntry = z.infer<typeof ENTRY>;

/** What a folder of the persistent storage holds. */
export const FILES = z.array(ENTRY);

/** An upload that has begun; each part is sent to its own address. */
export const BEGUN_UPLOAD = z.object({
  upload_id: z.string(),
  parts: z.array(z.object({ part_number: z.int(), url: z.url() })),
});

/** A part that has arrived. */
export const STORED_PART = z.object({ etag: z.string() });

/** A file whose parts have become one. */
export const COMPLETED_FILE = z.object({ file_path: z.string(), size_bytes: z.nullable(z.int()) });

/** Where a file can be read for a while. */
export const OFFERED_FILE = z.object({ url: z.url() });

/** What was removed. */
export const REMOVED_FILE = z.object({ file_path: z.string() });
