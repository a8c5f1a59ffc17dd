import { Page } from "../parts/page.tsx";

export function Apps() {
  return <Page title="Apps">NOT WRITTEN</Page>;
}
