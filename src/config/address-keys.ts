import { matching, mapped, optional, publicUrl } from "./readers.ts";
import type { Reader } from "./readers.ts";
import type { SettingKey } from "./setting-key.ts";

/** The public addresses of the service. */
export type AddressSettings = {
  /** Without a trailing slash; null means that links are made from the request's Host, here and below. */
  readonly publicApiUrl: string | null;
  readonly publicBaseUrl: string | null;
  /** The domain whose subdomains are app hosts, in lower case and without `*.`; null if apps have no hosts. */
  readonly appHosts: string | null;
};

const LABEL = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?";
/** One or more labels. The last one must not be a number, because that would be an IP address. */
const WILDCARD = new RegExp(`^\\*\\.(?:${LABEL}\\.)*(?!\\d+$)${LABEL}$`, "i");
/** A host name has at most 253 characters; an app's label and a dot take up to 64 of them. */
const MAX_DOMAIN_CHARS = 189;

const wildcard: Reader<string> = mapped(
  matching(
    "a wildcard such as *.apps.example.com",
    (text) => WILDCARD.test(text) && text.length - 2 <= MAX_DOMAIN_CHARS,
  ),
  (text) => text.slice(2).toLowerCase(),
);

/** Their rows, among those of all settings. */
export const ADDRESS_KEYS: { readonly [K in keyof AddressSettings]: SettingKey<AddressSettings[K]> } = {
  publicApiUrl: {
    name: "public_api_url",
    reader: optional(publicUrl()),
    default: null,
    meaning: "Address of the app endpoints as callers see it. If unset, links use the request's Host.",
  },
  publicBaseUrl: {
    name: "public_base_url",
    reader: optional(publicUrl()),
    default: null,
    meaning: "Address of the management API as callers see it. If unset, links use the request's Host.",
  },
  appHosts: {
    name: "app_hosts",
    reader: optional(wildcard),
    default: null,
    meaning:
      "Gives each app an origin of its own: the app endpoints also serve it at the root of {app}--{project}.apps.example.com. If unset, all apps share one origin.",
  },
};
