import path from "node:path";
import type { Readable } from "node:stream";
import type { StorageFolders } from "../../host/storage/folders.ts";
import type { StorageHelper } from "../../engines/programs/storage-helper.ts";
import { realpath } from "../../kit/files.ts";
import type { Clock, Timer } from "../../kit/clock.ts";
import type { Seal } from "../../kit/seal.ts";
import type { Log } from "../../kit/log.ts";
import { Trash } from "../../kit/remove-tree.ts";
import { PROJECT_ID } from "../../model/names.ts";
import { Grants } from "../grants.ts";
import { noUpload, type PartTag, type Upload, UPLOAD_LIFE_MS, Uploads } from "./uploads.ts";
import { readFilePath, readVolumePath } from "./volume-files.ts";
import { KeptVolume } from "./kept-volume.ts";
import type { OpenFile, SizeChange, VolumeEntry, VolumeFiles } from "./volume-files.ts";
import { Volume } from "./volume.ts";

export type VolumesParts = {
  readonly dataDir: string;
  readonly storage: Pick<StorageFolders, "make">;
  /** Works on the files where they belong to users of the projects; null where it is this process itself. */
  readonly helper: StorageHelper | null;
  readonly seal: Seal;
  readonly clock: Clock;
  readonly log: Log;
  /** Whether the disk is to take no more. */
  readonly shortage: () => string | null;
};

const UPLOAD = "volume upload";
const DOWNLOAD = "volume download";
const DOWNLOAD_LIFE_MS = 3_600_000;
const SWEEP_MS = 600_000;

type DownloadGrant = { readonly projectId: string; readonly filePath: string };
type UploadGrant = Upload & DownloadGrant;

/** The persistent storage of all projects, and the uploads to it. */
export class Volumes {
  readonly #parts: VolumesParts;
  readonly #grants: Grants;
  readonly #trash: Trash;
  readonly #uploads: Uploads;
  #sweeping: Timer | null = null;

  constructor(parts: VolumesParts) {
    const { dataDir, seal, clock, log, shortage } = parts;
    this.#parts = parts;
    // Beside the projects' folders, on their disk and out of their apps' sight.
    const staging = path.join(dataDir, "storage", ".staging");
    this.#grants = new Grants(seal, clock);
    this.#trash = new Trash(path.join(staging, "trash"), log);
    this.#uploads = new Uploads({ dir: path.join(staging, "uploads"), trash: this.#trash, clock, shortage });
  }

  start(): void {
    this.#sweeping = this.#parts.clock.every(SWEEP_MS, () => void this.sweep());
    void this.sweep();
  }

  async list(projectId: string, dir: string): Promise<VolumeEntry[]> {
    const folder = readVolumePath(dir);
    return await (await this.#volume(projectId)).list(folder);
  }

  /** Begins an upload; its id is the right to send its parts. An empty file has none, and is there at once. */
  async begin(projectId: string, filePath: string, partCount: number): Promise<string> {
    const target = readFilePath(filePath);
    if (partCount === 0) {
      const volume = await this.#volume(projectId);
      await this.#uploads.complete(await this.#uploads.begin(0), [], (file) => volume.put(file, target));
    }
    const grant: UploadGrant = { ...(await this.#uploads.begin(partCount)), projectId, filePath };
    return this.#grants.give(UPLOAD, grant, UPLOAD_LIFE_MS);
  }

  /** Stores a part; resolves with its tag. */
  async put(uploadId: string, partNumber: number, source: Readable): Promise<string> {
    return await this.#uploads.put(this.#upload(uploadId), partNumber, source);
  }

  /** Makes an upload the file at its path, in place of the one that is there. */
  async complete(
    projectId: string,
    { uploadId, filePath, tags }: { uploadId: string; filePath: string; tags: readonly PartTag[] },
  ): Promise<SizeChange> {
    const upload = this.#upload(uploadId);
    const target = readFilePath(filePath);
    if (upload.projectId !== projectId || upload.filePath !== filePath) throw noUpload();
    const volume = await this.#volume(projectId);
    return await this.#uploads.complete(upload, tags, (file) => volume.put(file, target));
  }

  /** The right to read a file that is there. */
  async offer(projectId: string, filePath: string): Promise<string> {
    const file = await (await this.#volume(projectId)).openFile(readFilePath(filePath));
    await file.close();
    const grant: DownloadGrant = { projectId, filePath };
    return this.#grants.give(DOWNLOAD, grant, DOWNLOAD_LIFE_MS);
  }

  /** Opens the file of such a right; null if it is invalid or has expired. */
  async open(grant: string): Promise<(OpenFile & { readonly name: string }) | null> {
    const granted = this.#grants.read(DOWNLOAD, grant) as DownloadGrant | null;
    if (!granted) return null;
    const file = readFilePath(granted.filePath);
    return { ...(await (await this.#volume(granted.projectId)).openFile(file)), name: file.at(-1) ?? "" };
  }

  /** Removes a file, or a folder whose path ends with a slash. */
  async remove(projectId: string, filePath: string): Promise<SizeChange> {
    const volume = await this.#volume(projectId);
    if (!filePath.endsWith("/")) return await volume.removeFile(readFilePath(filePath));
    await volume.removeFolder(readFilePath(withoutSlashes(filePath)));
    return { beforeBytes: null, afterBytes: null };
  }

  /** Removes abandoned uploads, and the rest of folders that were removed. */
  async sweep(): Promise<void> {
    await this.#uploads.sweep();
  }

  async stop(): Promise<void> {
    this.#sweeping?.cancel();
    await this.#parts.helper?.stop();
    await this.#trash.stop();
  }

  #upload(uploadId: string): UploadGrant {
    const upload = this.#grants.read(UPLOAD, uploadId) as UploadGrant | null;
    if (!upload) throw noUpload();
    return upload;
  }

  async #volume(projectId: string): Promise<VolumeFiles> {
    if (!PROJECT_ID.test(projectId)) throw new Error(`${projectId} is no project's id`);
    const { helper, storage } = this.#parts;
    if (helper) return new KeptVolume(helper, projectId);
    return new Volume(await realpath(storage.make(projectId)), this.#trash);
  }
}

/** Not by a regular expression: that would take quadratic time for many slashes. */
function withoutSlashes(text: string): string {
  let end = text.length;
  while (text[end - 1] === "/") end -= 1;
  return text.slice(0, end);
}
