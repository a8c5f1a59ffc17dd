import { isIP } from "node:net";
import { hostUrls } from "../kit/host-urls.ts";
import { readMailServer } from "../kit/smtp.ts";
import { duration, integer, mapped, matching } from "./readers.ts";
import type { Reader } from "./readers.ts";

/** A duration, read into milliseconds. */
export const milliseconds = (min: string, max: string): Reader<number> =>
  mapped(duration(min, max), (seconds) => Math.round(seconds * 1000));

/** How long something is kept. */
export const age = (least: string): Reader<number> => milliseconds(least, "3650d");

/** 0 means any free port. */
export const port = (): Reader<number> => integer(0, 65_535);

/** What a listener can bind to. */
export const hostName: Reader<string> = matching("an IP address or a host name", (text) => {
  if (isIP(text) !== 0) return true;
  // Digits and dots alone are an address with a mistake in it.
  return text.length <= 253 && /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/i.test(text) && !/^[\d.]+$/.test(text);
});

/** Where a Postgres is; it may hold a password. */
export const databaseUrl: Reader<string> = {
  ...matching(
    "an address that begins with postgres:// or postgresql://",
    (text) => /^postgres(ql)?:\/\//.test(text) && hostUrls(text).every((url) => URL.canParse(url)),
  ),
  secret: true,
};

/** Where a mail server is; it may hold a password. */
export const smtpUrl: Reader<string> = {
  ...matching(
    "an address such as smtps://user:password@mail.example.com",
    (text) => readMailServer(text) !== null,
  ),
  secret: true,
};

/** Where a page comes from. */
export const origin: Reader<string> = matching(
  '"*" or an origin such as https://example.com',
  (text) => text === "*" || (/^https?:\/\//.test(text) && URL.parse(text)?.origin === text),
);

/** Ports of this machine, both ends included. */
export type PortRange = { readonly first: number; readonly last: number };

/** A range of ports, of which none needs a privilege. */
export const portRange: Reader<PortRange> = mapped(
  matching("a range of ports from 1024 to 65535, such as 21000-24999", (text) => {
    const [, first = "", last = ""] = PORTS.exec(text) ?? [];
    return Number(first) >= 1024 && Number(last) <= 65_535 && Number(first) <= Number(last);
  }),
  (text) => {
    const [first = 0, last = 0] = text.split("-").map(Number);
    return { first, last };
  },
);

const PORTS = /^(\d{1,5})-(\d{1,5})$/;
