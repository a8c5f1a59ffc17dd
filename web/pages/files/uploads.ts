import { useSyncExternalStore } from "react";
import { messageOf } from "../../api/answer.ts";
import { filesQuery } from "../../api/files.ts";
import { queryClient } from "../../api/query-client.ts";
import { uploadFile } from "../../api/upload-file.ts";

/** A file on its way to the persistent storage. */
export type Upload = {
  readonly id: number;
  readonly projectId: string;
  /** The folder, with a `/` at its end. */
  readonly dir: string;
  readonly name: string;
  readonly sizeBytes: number;
  readonly sentBytes: number;
  readonly state: "waiting" | "sending" | "done" | "failed" | "cancelled";
  readonly problem: string | null;
};

/** Files go one after the other; each already uses several connections. */
let queue: { readonly id: number; readonly file: File }[] = [];
let isSending = false;
let uploads: readonly Upload[] = [];
let lastId = 0;
const stops = new Map<number, AbortController>();
const listeners = new Set<() => void>();

/** Of those that are over so many stay in the list. */
const MAX_OVER = 20;

/** Puts files on their way; they go on while other pages are looked at. */
export function addUploads(projectId: string, dir: string, files: readonly File[]): void {
  const added = files.map((file) => ({ id: ++lastId, file }));
  for (const { id } of added) stops.set(id, new AbortController());
  queue = [...queue, ...added];
  const fresh = added.map(({ id, file }) => ({
    id,
    projectId,
    dir,
    name: file.name,
    sizeBytes: file.size,
    sentBytes: 0,
    state: "waiting" as const,
    problem: null,
  }));
  set([...uploads, ...fresh]);
  void sendAll();
}

export function cancelUpload(id: number): void {
  stops.get(id)?.abort();
  queue = queue.filter((entry) => entry.id !== id);
  change(id, { state: "cancelled" });
}

/** Takes those that are over out of the list. */
export function clearUploads(): void {
  set(uploads.filter((upload) => !isOver(upload)));
}

/** The uploads of a project, in the order in which they were asked for. */
export function useUploads(projectId: string): readonly Upload[] {
  const all = useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => uploads,
  );
  return all.filter((upload) => upload.projectId === projectId);
}

export function isOver({ state }: Upload): boolean {
  return state !== "waiting" && state !== "sending";
}

async function sendAll(): Promise<void> {
  if (isSending) return;
  isSending = true;
  for (let next = queue.shift(); next; next = queue.shift()) await send(next.id, next.file);
  isSending = false;
}

async function send(id: number, file: File): Promise<void> {
  const upload = uploads.find((entry) => entry.id === id);
  const signal = stops.get(id)?.signal;
  if (!upload || !signal) return;
  const { projectId, dir, name } = upload;
  change(id, { state: "sending" });
  try {
    await uploadFile(
      projectId,
      dir + name,
      file,
      (sentBytes) => signal.aborted || change(id, { sentBytes }),
      signal,
    );
    change(id, { state: "done", sentBytes: file.size });
    await queryClient.invalidateQueries({ queryKey: filesQuery(projectId, dir).queryKey });
  } catch (error) {
    if (!signal.aborted) change(id, { state: "failed", problem: messageOf(error) });
  } finally {
    stops.delete(id);
  }
}

function change(id: number, next: Partial<Upload>): void {
  set(uploads.map((upload) => (upload.id === id ? { ...upload, ...next } : upload)));
}

function set(next: readonly Upload[]): void {
  const over = next.filter(isOver);
  const dropped = new Set(over.slice(0, Math.max(0, over.length - MAX_OVER)));
  uploads = next.filter((upload) => !dropped.has(upload));
  for (const listener of listeners) listener();
}
