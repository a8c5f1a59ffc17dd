/** What the service says of itself in the page: where apps are called, and which release it is. */
export type Installation = { readonly apiUrl: string; readonly version: string };

function read(): Installation {
  const content = document.querySelector<HTMLMetaElement>('meta[name="millrace"]')?.content ?? "";
  try {
    return JSON.parse(content) as Installation;
  } catch {
    // Under Vite's own server the page is not filled in.
    return { apiUrl: "http://127.0.0.1:4000", version: "dev" };
  }
}

export const installation: Installation = read();
