/** IPv4 addresses that are nobody's on the public internet. */
export const SPECIAL_4 = [
  "0.0.0.0/8", // this network; connecting to it reaches this machine
  "10.0.0.0/8", // private
  "100.64.0.0/10", // shared by carriers
  "127.0.0.0/8", // loopback
  "169.254.0.0/16", // link-local, with the metadata services of clouds
  "172.16.0.0/12", // private
  "192.0.0.0/24", // protocol assignments
  "192.0.2.0/24", // documentation
  "192.88.99.0/24", // 6to4 relays
  "192.168.0.0/16", // private
  "198.18.0.0/15", // benchmarks
  "198.51.100.0/24", // documentation
  "203.0.113.0/24", // documentation
  "224.0.0.0/4", // multicast
  "240.0.0.0/4", // reserved, broadcast
] as const;

/** The same of IPv6. IPv4 addresses written as IPv6 are among them, and have to be looked at as what they are. */
export const SPECIAL_6 = [
  // Public addresses are in 2000::/3; loopback, private, link-local, multicast and the rest lie outside.
  "::/3",
  "4000::/2",
  "8000::/1",
  "2001::/23", // protocol assignments, with Teredo: an IPv4 address in disguise
  "2001:db8::/32", // documentation
  "2002::/16", // 6to4: an IPv4 address in disguise
  "3fff::/20", // documentation
] as const;
