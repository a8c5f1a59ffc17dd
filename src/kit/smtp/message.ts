import { randomUUID } from "node:crypto";

/** An e-mail of plain text. */
export type Mail = { readonly to: string; readonly subject: string; readonly text: string };

/** An address that can be sent as it is: no space, no bracket, no line break, nothing beyond ASCII. */
const ADDRESS = /^[\w.!#$%&'*+/=?^`{|}~-]+@[A-Za-z0-9.-]+$/;
const NAMED = /^([^<>"\\\r\n]*)<([^<>\s]+)>$/;
const LINE_CHARS = 76;

/** A sender: an address, and perhaps a name before it. */
export type Sender = { readonly address: string; readonly name: string | null };

/** Whether mail can be sent to that address. */
export function isMailAddress(text: string): boolean {
  return text.length <= 254 && ADDRESS.test(text);
}

/** Reads `ada@example.com` and `Ada <ada@example.com>`; null for what is neither. */
export function readSender(text: string): Sender | null {
  const [, before = "", address = text.trim()] = NAMED.exec(text.trim()) ?? [];
  const name = before.trim();
  if (!isMailAddress(address) || !/^[\x20-\x7e]{0,100}$/.test(name)) return null;
  return { address, name: name === "" ? null : name };
}

/** The bytes of a mail as they are sent, lines ended with CRLF, the text in base64: nothing in it is a command. */
export function mailBytes({ to, subject, text }: Mail, from: Sender, now: number): string {
  if (!isMailAddress(to)) throw new Error("mail cannot be sent to this address");
  const [, domain = "localhost"] = from.address.split("@");
  const head = [
    `Date: ${new Date(now).toUTCString().replace("GMT", "+0000")}`,
    `From: ${from.name === null ? from.address : `"${from.name}" <${from.address}>`}`,
    `To: ${to}`,
    `Subject: ${headerText(subject)}`,
    `Message-ID: <${randomUUID()}@${domain}>`,
    "Auto-Submitted: auto-generated",
    "MIME-Version: 1.0",
    "Content-Type: text/plain; charset=utf-8",
    "Content-Transfer-Encoding: base64",
  ];
  const body = Buffer.from(text.replaceAll(/\r?\n/g, "\r\n")).toString("base64");
  const lines = body.match(new RegExp(`.{1,${LINE_CHARS}}`, "g")) ?? [];
  return [...head, "", ...lines, ""].join("\r\n");
}

/** A header's text: as it is where that is plain ASCII, else as encoded words (RFC 2047) of whole characters. */
function headerText(text: string): string {
  if (/^[\x20-\x7e]{0,70}$/.test(text)) return text;
  const words: string[] = [];
  let word = "";
  for (const character of text.replaceAll(/[\r\n]+/g, " ")) {
    // 39 bytes are 52 in base64: with what stands around them a line of less than 76 characters.
    if (Buffer.byteLength(word + character) > 39) {
      words.push(word);
      word = "";
    }
    word += character;
  }
  return [...words, word].map((part) => `=?utf-8?B?${Buffer.from(part).toString("base64")}?=`).join("\r\n ");
}
