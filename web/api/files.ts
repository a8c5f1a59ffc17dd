import { queryOptions } from "@tanstack/react-query";
import { BEGUN_UPLOAD, FILES, OFFERED_FILE } from "../../src/shapes/projects.ts";
import { ask, tell } from "./http.ts";

export type { FileEntry } from "../../src/shapes/projects.ts";

/** A part of an upload, and where it is sent. */
export type UploadPart = { readonly number: number; readonly path: string };
/** A part that has arrived. */
export type StoredPart = { readonly part_number: number; readonly etag: string };

const base = (projectId: string): string => `/v2/projects/${projectId}/volumes/default`;

/** What is in a folder, folders first. */
export function filesQuery(projectId: string, dir: string) {
  return queryOptions({
    queryKey: ["files", projectId, dir],
    queryFn: async ({ signal }) => {
      const entries = await ask(FILES, `${base(projectId)}/ls`, { query: { dir }, signal });
      return entries.toSorted(
        (one, other) =>
          Number(other.is_folder) - Number(one.is_folder) ||
          one.name.localeCompare(other.name, undefined, { numeric: true }),
      );
    },
    refetchInterval: 10_000,
  });
}

/** Where a file can be read, for an hour, by a link. */
export async function offerFile(projectId: string, filePath: string): Promise<string> {
  const query = { file_path: filePath };
  return pathOf((await ask(OFFERED_FILE, `${base(projectId)}/download`, { query })).url);
}

/** Removes a file, or with a `/` at the end a folder and all in it. */
export async function removeFile(projectId: string, filePath: string): Promise<void> {
  await tell(`${base(projectId)}/rm`, { method: "DELETE", query: { file_path: filePath } });
}

/** Begins an upload; a file without parts is there at once. */
export async function beginUpload(
  projectId: string,
  filePath: string,
  partCount: number,
): Promise<{ readonly uploadId: string; readonly parts: readonly UploadPart[] }> {
  const body = { file_path: filePath, part_count: partCount };
  const answer = await ask(BEGUN_UPLOAD, `${base(projectId)}/cp/initialize`, { method: "POST", body });
  const parts = answer.parts.map(({ part_number: number, url }) => ({ number, path: pathOf(url) }));
  return { uploadId: answer.upload_id, parts };
}

/** Makes the parts one file. */
export async function completeUpload(
  projectId: string,
  filePath: string,
  upload: { readonly uploadId: string; readonly parts: readonly StoredPart[] },
): Promise<void> {
  const body = { upload_id: upload.uploadId, file_path: filePath, parts: upload.parts };
  await tell(`${base(projectId)}/cp/complete`, { method: "POST", body });
}

/** The same place on the site that this page is from: it may call no other. */
function pathOf(url: string): string {
  const { pathname, search } = new URL(url);
  return pathname + search;
}
