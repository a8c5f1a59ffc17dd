/** How to reach the API of a cluster, and as whom. */
export type ClusterAccess = {
  /** Always https. */
  readonly server: URL;
  readonly tls: ClusterTls;
  /** Read for each request, since tokens are renewed; null where the certificate says who asks. */
  readonly token: () => string | null;
  /** Where its pods go unless somebody says otherwise. */
  readonly namespace: string;
};

export type ClusterTls = {
  /** PEM, here and below; absent for the authorities that Node trusts. */
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
  /** The name that the server's certificate must have, if not that of its address. */
  readonly servername?: string;
  readonly rejectUnauthorized: boolean;
};
