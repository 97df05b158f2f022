"""Keys in a hardware module, over PKCS#11: they are made there and never leave it. Needs the extra `bpc[pkcs11]`.

A key is a pair of objects whose label is its name. The mechanism is EDDSA over edwards25519 (PKCS#11 3.0, 6.3).
"""

from typing import Any, Final

from bpc.core.audit.signing import PublicKey, parse_public_key
from bpc.core.errors import Conflict
from bpc.runtime.key_ring import KeyNotHeld
from bpc.runtime.settings import ConfigMissing, Settings

MODULE_VARIABLE: Final = "BPC_SIGNER_PKCS11_MODULE"
POINT_BYTES: Final = 32
CURVE_PARAMETERS: Final = b"\x13\x0cedwards25519"  # PKCS#11 3.0, 2.3.5: the name of the curve as a printable string


class Pkcs11Provider:
    """Keys of one token. A session stays open; a token that was taken away is opened again."""

    may_block = True

    def __init__(self, settings: Settings) -> None:
        try:
            import pkcs11  # noqa: PLC0415 (an extra)
        except ImportError:
            raise ConfigMissing.for_setting(
                "BPC_SIGNER_PROVIDER", "the library for PKCS#11 is not installed", fix="install `bpc[pkcs11]`"
            ) from None
        if settings.signer_pkcs11_module is None or settings.signer_pkcs11_pin is None:
            raise ConfigMissing.for_setting(
                MODULE_VARIABLE,
                "the library or the PIN of the hardware module is missing",
                fix=f"set {MODULE_VARIABLE} and BPC_SIGNER_PKCS11_PIN",
            )
        self._pkcs11 = pkcs11
        self._settings = settings
        self._session: Any = None
        self._public_keys: dict[str, PublicKey] = {}
        self._open_session()  # what is wrong shows at the start

    def find_public_key(self, key_id: str) -> PublicKey | None:
        if key_id in self._public_keys:
            return self._public_keys[key_id]
        try:
            key = self._find(self._pkcs11.ObjectClass.PUBLIC_KEY, key_id)
        except KeyNotHeld:
            return None
        return self._remember(key_id, key)

    def create_key(self, key_id: str) -> PublicKey:
        public_key = self.find_public_key(key_id)
        if public_key is not None:
            return public_key
        attributes = {self._pkcs11.Attribute.EC_PARAMS: CURVE_PARAMETERS}
        session = self._open_session()
        parameters = session.create_domain_parameters(self._pkcs11.KeyType.EC_EDWARDS, attributes, local=True)
        public, _ = parameters.generate_keypair(
            mechanism=self._pkcs11.Mechanism.EC_EDWARDS_KEY_PAIR_GEN,
            label=key_id,
            id=key_id.encode(),
            store=True,
            private_template={self._pkcs11.Attribute.EXTRACTABLE: False, self._pkcs11.Attribute.SENSITIVE: True},
        )
        return self._remember(key_id, public)

    def sign(self, key_id: str, message: bytes) -> bytes:
        try:
            key = self._find(self._pkcs11.ObjectClass.PRIVATE_KEY, key_id)
            signature: bytes = key.sign(message, mechanism=self._pkcs11.Mechanism.EDDSA)
        except self._pkcs11.PKCS11Error:  # the session was lost: a token that was restarted has forgotten it
            self._session = None
            key = self._find(self._pkcs11.ObjectClass.PRIVATE_KEY, key_id)
            signature = key.sign(message, mechanism=self._pkcs11.Mechanism.EDDSA)
        return signature

    def _find(self, object_class: Any, key_id: str) -> Any:
        try:
            return self._open_session().get_key(object_class=object_class, label=key_id)
        except self._pkcs11.NoSuchKey:
            raise KeyNotHeld(key_id) from None

    def _remember(self, key_id: str, key: Any) -> PublicKey:
        point = bytes(key[self._pkcs11.Attribute.EC_POINT])
        # A DER octet string around the point, as the standard says; some modules give the point as it is.
        self._public_keys[key_id] = parse_public_key(point[-POINT_BYTES:])
        return self._public_keys[key_id]

    def _open_session(self) -> Any:
        if self._session is None:
            settings = self._settings
            pin = settings.signer_pkcs11_pin
            try:
                library = self._pkcs11.lib(str(settings.signer_pkcs11_module))
                token = library.get_token(token_label=settings.signer_pkcs11_token)
                try:
                    self._session = token.open(rw=True, user_pin=None if pin is None else pin.get_secret_value())
                except self._pkcs11.UserAlreadyLoggedIn:  # one login counts for all sessions of a process
                    self._session = token.open(rw=True)
            except (self._pkcs11.PKCS11Error, RuntimeError) as error:
                reason = str(error) or type(error).__name__
                raise Conflict(
                    f"the token `{settings.signer_pkcs11_token}` cannot be opened: {reason}",
                    fix=f"check {MODULE_VARIABLE}, the label of the token and its PIN",
                ) from None
        return self._session
