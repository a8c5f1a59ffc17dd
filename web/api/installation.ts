import { INSTALLATION } from "../../src/shapes/installation.ts";
import type { Installation } from "../../src/shapes/installation.ts";
import { checked } from "../../src/shapes/shape.ts";

function read(): Installation {
  const content = document.querySelector<HTMLMetaElement>('meta[name="millrace"]')?.content ?? "";
  try {
    return checked(INSTALLATION, JSON.parse(content));
  } catch {
    // Under Vite's own server the page is not filled in.
    return { apiUrl: "http://127.0.0.1:4000", version: "dev", sendsMail: false };
  }
}

export const installation: Installation = read();
