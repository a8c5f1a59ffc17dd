import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from "node:crypto";
import {
  closeSync,
  fsyncSync,
  lstatSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs";

const KEY_BYTES = 32;
const SALT_BYTES = 16;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** Seals and opens secrets at rest with AES-256-GCM; each record has a key of its own. */
export class Seal {
  readonly #master: Buffer;

  constructor(master: Buffer) {
    if (master.length !== KEY_BYTES)
      throw new Error(`a master key has ${KEY_BYTES} bytes, not ${master.length}`);
    this.#master = master;
  }

  /** `context` is the secret's place (table, row, column); with another one, it does not open. */
  close(secret: Buffer, context: string): Buffer {
    const salt = randomBytes(SALT_BYTES);
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv("aes-256-gcm", this.#keyFor(salt), nonce).setAAD(Buffer.from(context));
    const sealed = Buffer.concat([cipher.update(secret), cipher.final()]);
    return Buffer.concat([salt, nonce, cipher.getAuthTag(), sealed]);
  }

  /** Throws if the bytes were changed, moved, or sealed with another master key. */
  open(sealed: Uint8Array, context: string): Buffer {
    const bytes = Buffer.from(sealed);
    const nonceAt = SALT_BYTES;
    const tagAt = nonceAt + NONCE_BYTES;
    const bodyAt = tagAt + TAG_BYTES;
    const key = this.#keyFor(bytes.subarray(0, nonceAt));
    const decipher = createDecipheriv("aes-256-gcm", key, bytes.subarray(nonceAt, tagAt), {
      authTagLength: TAG_BYTES,
    });
    decipher.setAAD(Buffer.from(context)).setAuthTag(bytes.subarray(tagAt, bodyAt));
    return Buffer.concat([decipher.update(bytes.subarray(bodyAt)), decipher.final()]);
  }

  /** A keyed hash: always the same 32 bytes for a content and context. `context` is their purpose, without NUL. */
  mark(content: Buffer, context: string): Buffer {
    const key = Buffer.from(hkdfSync("sha256", this.#master, "", "millrace mark", KEY_BYTES));
    return createHmac("sha256", key).update(`${context}\0`).update(content).digest();
  }

  #keyFor(salt: Buffer): Buffer {
    return Buffer.from(hkdfSync("sha256", this.#master, salt, "millrace record", KEY_BYTES));
  }
}

/** The master key in a file that only its owner may read; made at the first start. */
export function loadMasterKey(path: string): Buffer {
  makeMasterKey(path);
  const key = Buffer.from(readFileSync(path, "utf8").trim(), "base64");
  if (key.length !== KEY_BYTES) {
    throw new Error(`${path} does not hold a master key; restore it from a backup`);
  }
  return key;
}

/** Writes a new key unless the path exists. First to another name: a failed start must leave no part of a key. */
function makeMasterKey(path: string): void {
  if (lstatSync(path, { throwIfNoEntry: false })) return;
  const aside = `${path}.new`;
  rmSync(aside, { force: true });
  const descriptor = openSync(aside, "wx", 0o600);
  try {
    writeSync(descriptor, `${randomBytes(KEY_BYTES).toString("base64")}\n`);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
  renameSync(aside, path);
}
