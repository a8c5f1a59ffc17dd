import { isIP } from "node:net";
import { hostUrls } from "../kit/host-urls.ts";
import { readMailServer } from "../kit/smtp/mail-server.ts";
import { matching } from "./readers.ts";
import type { Reader } from "./readers.ts";

/** Takes what a listener can bind to. */
export const hostName = matching("an IP address or a host name", (text) => {
  if (isIP(text) !== 0) return true;
  // Digits and dots alone are an address with a mistake in it.
  return text.length <= 253 && /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/i.test(text) && !/^[\d.]+$/.test(text);
});

/** Takes the address of a Postgres. */
export const databaseUrl: Reader<string> = {
  ...matching(
    "an address that begins with postgres:// or postgresql://",
    (text) => /^postgres(ql)?:\/\//.test(text) && hostUrls(text).every((url) => URL.canParse(url)),
  ),
  secret: true,
};

/** Takes the address of a mail server. */
export const smtpUrl: Reader<string> = {
  ...matching(
    "an address such as smtps://user:password@mail.example.com",
    (text) => readMailServer(text) !== null,
  ),
  secret: true,
};

/** Takes the origin of a page, or all of them. */
export const origin = matching(
  '"*" or an origin such as https://example.com',
  (text) => text === "*" || (/^https?:\/\//.test(text) && URL.parse(text)?.origin === text),
);
