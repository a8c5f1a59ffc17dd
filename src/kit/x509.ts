import { createPublicKey, generateKeyPairSync, hash, randomBytes, sign } from "node:crypto";
import type { KeyObject } from "node:crypto";

/** A certificate and its private key, both as PEM. */
export type Certified = { readonly certificate: string; readonly key: string };

/** The holder and validity of a certificate. */
export type Subject = { readonly name: string; readonly from: Date; readonly until: Date };

/** RFC 5280's date for certificates without an end. */
export const NO_END = new Date("9999-12-31T23:59:59Z");

// Tags of DER, the form in which certificates are written (X.690).
const BOOLEAN = 0x01;
const INTEGER = 0x02;
const BIT_STRING = 0x03;
const OCTET_STRING = 0x04;
const OBJECT_ID = 0x06;
const UTF8_STRING = 0x0c;
const UTC_TIME = 0x17;
const LATER_TIME = 0x18;
const SEQUENCE = 0x30;
const SET = 0x31;
const VERSION = 0xa0;
const EXTENSIONS = 0xa3;
const KEY_ID = 0x80;
const DNS_NAME = 0x82;

const ECDSA_SHA256 = objectId(1, 2, 840, 10045, 4, 3, 2);
const COMMON_NAME = objectId(2, 5, 4, 3);
const SUBJECT_KEY = objectId(2, 5, 29, 14);
const KEY_USAGE = objectId(2, 5, 29, 15);
const ALTERNATIVE_NAME = objectId(2, 5, 29, 17);
const CONSTRAINTS = objectId(2, 5, 29, 19);
const AUTHORITY_KEY = objectId(2, 5, 29, 35);
const EXTENDED_USAGE = objectId(2, 5, 29, 37);
const OF_SERVER = objectId(1, 3, 6, 1, 5, 5, 7, 3, 1);
const OF_CLIENT = objectId(1, 3, 6, 1, 5, 5, 7, 3, 2);

const SERIAL_BYTES = 16;
/** From this year on, dates have the longer form. */
const LATER_YEAR = 2050;

/** A new authority: self-signed, and may sign leaves, but no authorities. */
export function makeAuthority(subject: Subject): Certified {
  const key = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const extensions = [
    extension(CONSTRAINTS, der(SEQUENCE, der(BOOLEAN, 0xff), der(INTEGER, 0)), true),
    // The sixth of nine uses: to sign certificates.
    extension(KEY_USAGE, der(BIT_STRING, 2, 0b100), true),
    extension(SUBJECT_KEY, der(OCTET_STRING, keyId(key.publicKey)), false),
  ];
  return certify(subject, key, { name: subject.name, key: key.privateKey }, extensions);
}

/** A new key with a certificate of an authority, for both sides of a connection, under one name. */
export function makeLeaf(subject: Subject, authority: { readonly name: string } & Certified): Certified {
  const key = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const ofAuthority = createPublicKey(authority.key);
  const extensions = [
    extension(CONSTRAINTS, der(SEQUENCE), true),
    // The first use: digital signature.
    extension(KEY_USAGE, der(BIT_STRING, 7, 0b1000_0000), true),
    extension(EXTENDED_USAGE, der(SEQUENCE, OF_SERVER, OF_CLIENT), false),
    extension(ALTERNATIVE_NAME, der(SEQUENCE, der(DNS_NAME, Buffer.from(subject.name, "latin1"))), false),
    extension(SUBJECT_KEY, der(OCTET_STRING, keyId(key.publicKey)), false),
    extension(AUTHORITY_KEY, der(SEQUENCE, der(KEY_ID, keyId(ofAuthority))), false),
  ];
  return certify(subject, key, authority, extensions);
}

function certify(
  { name, from, until }: Subject,
  { publicKey, privateKey }: { readonly publicKey: KeyObject; readonly privateKey: KeyObject },
  issuer: { readonly name: string; readonly key: string | KeyObject },
  extensions: readonly Buffer[],
): Certified {
  const algorithm = der(SEQUENCE, ECDSA_SHA256);
  const serial = randomBytes(SERIAL_BYTES);
  // Positive, and without zeros in front.
  serial[0] = ((serial[0] ?? 0) & 0x3f) | 0x40;
  const content = der(
    SEQUENCE,
    der(VERSION, der(INTEGER, 2)),
    der(INTEGER, serial),
    algorithm,
    nameOf(issuer.name),
    der(SEQUENCE, time(from), time(until)),
    nameOf(name),
    publicKey.export({ type: "spki", format: "der" }),
    der(EXTENSIONS, der(SEQUENCE, ...extensions)),
  );
  const signature = sign("sha256", content, issuer.key);
  const certificate = pem(der(SEQUENCE, content, algorithm, der(BIT_STRING, 0, signature)));
  return { certificate, key: privateKey.export({ type: "pkcs8", format: "pem" }) as string };
}

/** One value: tag, length and content. */
function der(tag: number, ...parts: readonly (Buffer | number)[]): Buffer {
  const content = Buffer.concat(parts.map((part) => (typeof part === "number" ? Buffer.of(part) : part)));
  const { length } = content;
  if (length < 0x80) return Buffer.concat([Buffer.of(tag, length), content]);
  if (length < 0x100) return Buffer.concat([Buffer.of(tag, 0x81, length), content]);
  return Buffer.concat([Buffer.of(tag, 0x82, length >> 8, length & 0xff), content]);
}

function extension(id: Buffer, value: Buffer, isCritical: boolean): Buffer {
  const critical = isCritical ? [der(BOOLEAN, 0xff)] : [];
  return der(SEQUENCE, id, ...critical, der(OCTET_STRING, value));
}

function objectId(first: number, second: number, ...rest: readonly number[]): Buffer {
  const bytes = rest.flatMap((each) => {
    const sevens = [each & 0x7f];
    for (let left = each >>> 7; left > 0; left >>>= 7) sevens.unshift((left & 0x7f) | 0x80);
    return sevens;
  });
  return der(OBJECT_ID, first * 40 + second, ...bytes);
}

function nameOf(name: string): Buffer {
  const value = der(UTF8_STRING, Buffer.from(name));
  return der(SEQUENCE, der(SET, der(SEQUENCE, COMMON_NAME, value)));
}

function time(date: Date): Buffer {
  const digits = date.toISOString().replaceAll(/[-:T]|\.\d+/g, "");
  if (date.getUTCFullYear() >= LATER_YEAR) return der(LATER_TIME, Buffer.from(digits));
  return der(UTC_TIME, Buffer.from(digits.slice(2)));
}

function keyId(key: KeyObject): Buffer {
  return hash("sha256", key.export({ type: "spki", format: "der" }), "buffer").subarray(0, 20);
}

function pem(bytes: Buffer): string {
  const lines = bytes.toString("base64").match(/.{1,64}/g) ?? [];
  return ["-----BEGIN CERTIFICATE-----", ...lines, "-----END CERTIFICATE-----", ""].join("\n");
}
