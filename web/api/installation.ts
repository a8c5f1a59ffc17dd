/** What the service says of itself in the page: where apps are called, which release it is, whether it sends mail. */
export type Installation = {
  readonly apiUrl: string;
  readonly version: string;
  readonly sendsMail: boolean;
};

function read(): Installation {
  const content = document.querySelector<HTMLMetaElement>('meta[name="millrace"]')?.content ?? "";
  try {
    return JSON.parse(content) as Installation;
  } catch {
    // Under Vite's own server the page is not filled in.
    return { apiUrl: "http://127.0.0.1:4000", version: "dev", sendsMail: false };
  }
}

export const installation: Installation = read();
