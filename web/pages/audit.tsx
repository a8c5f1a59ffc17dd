import { Page } from "../parts/page.tsx";

export function Audit() {
  return <Page title="Audit">NOT WRITTEN</Page>;
}
