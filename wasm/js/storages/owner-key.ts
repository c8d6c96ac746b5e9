import type { OwnerKey } from './store.js';

/** An owner's key as stores that hold bytes keep it. */
export interface StoredKey {
  readonly publicKey: Uint8Array;
  /** The private half, PKCS #8; nothing where there is no Ed25519. */
  readonly pkcs8?: Uint8Array;
}

/** A fresh key pair, whose private half can be taken out if `extractable`; nothing where there is no Ed25519. */
export async function freshPair(extractable: boolean): Promise<CryptoKeyPair | undefined> {
  try {
    return (await crypto.subtle.generateKey('Ed25519', extractable, ['sign', 'verify'])) as CryptoKeyPair;
  } catch {
    return undefined;
  }
}

/** The public half of a key pair; without one, random bytes, which prove nothing to anybody. */
export async function publicHalf(pair: CryptoKeyPair | undefined): Promise<Uint8Array> {
  return pair ? new Uint8Array(await crypto.subtle.exportKey('raw', pair.publicKey)) : crypto.getRandomValues(new Uint8Array(32));
}

/** Signs with a key, as `open()` takes it. */
export function owner(publicKey: Uint8Array, key: CryptoKey | undefined): OwnerKey {
  return key ? { publicKey, sign: (bytes) => crypto.subtle.sign('Ed25519', key, bytes) } : { publicKey };
}

/** A fresh key for a store that holds bytes. */
export async function freshKey(): Promise<StoredKey> {
  const pair = await freshPair(true);
  const publicKey = await publicHalf(pair);
  return pair ? { publicKey, pkcs8: new Uint8Array(await crypto.subtle.exportKey('pkcs8', pair.privateKey)) } : { publicKey };
}

/** A key that such a store kept. */
export async function keptKey({ publicKey, pkcs8 }: StoredKey): Promise<OwnerKey> {
  return owner(publicKey, pkcs8 && (await crypto.subtle.importKey('pkcs8', pkcs8 as Uint8Array<ArrayBuffer>, 'Ed25519', false, ['sign'])));
}

/** A name that no other log has. */
export function freshName(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
