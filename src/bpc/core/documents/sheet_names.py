"""What people call the sheets of a workbook, in English, German, French, Spanish, Italian and Polish.

Case, accents, punctuation, numbers and articles do not matter: `1. Batterie-Daten` is `Batteriedaten` spelled apart.
"""

import re
from collections.abc import Mapping
from typing import Final

from bpc.core.documents.header_text import build_name_key, spell_umlauts

_NUMBER: Final = re.compile("[0-9]*")
# For each kind of document: the fact types of a sheet's rows, and the names of such sheets.
_NAMES: Final[Mapping[str, Mapping[tuple[str, ...], str]]] = {
    "BOM": {
        (
            "Battery",
        ): "Battery; Batteries; Battery data; Battery pack; Batterie; Batterien; Batteriedaten; Batterie Daten;"
        " Batteriestammdaten; Produktdaten; Données batterie; Données de la batterie; Batería; Baterías; Datos de"
        " la batería; Datos batería; Batteria; Dati batteria; Dati della batteria; Bateria; Baterie; Dane baterii"
        # The sheets of our own templates.
        "; Identity and label data; Recycled content; Performance and lifetime; Marking and documents; Dismantling and"
        " tests; State of the battery; Kennung und Kennzeichnung; Rezyklatanteil; Leistung und Lebensdauer; Zeichen und"
        " Unterlagen; Demontage und Prüfberichte; Zustand der Batterie",
        ("Component",): "Component; Components; Parts; Part list; Parts list; Komponente; Komponenten; Bauteile; Teile;"
        " Teileliste; Composant; Composants; Pièces; Liste des composants; Componente; Componentes; Piezas; Lista de"
        " componentes; Componenti; Parti; Elenco componenti; Komponent; Komponenty; Części; Lista części",
        ("Battery", "Component"): "Bill of materials; BOM; Stückliste; Materialliste; Nomenclature; Liste de matériaux;"
        " Lista de materiales; Distinta base; Distinta materiali; Zestawienie materiałów; Lista materiałowa",
    },
    "PCF": {
        (
            "PCF",
        ): "PCF; Carbon footprint; Product carbon footprint; CO2 footprint; CO2-Fußabdruck; CO2 Bilanz; Klimabilanz;"
        " Empreinte carbone; Huella de carbono; Impronta di carbonio; Impronta carbonica; Ślad węglowy",
    },
    "DUE_DILIGENCE": {
        (
            "DueDiligence",
        ): "Due diligence; Supply chain due diligence; Sorgfaltspflicht; Sorgfaltspflichten; Lieferkette;"
        " Devoir de diligence; Diligence raisonnable; Devoir de vigilance; Diligencia debida; Dovuta diligenza; Dovere"
        " di diligenza; Należyta staranność",
    },
}
_NOTES: Final = (
    "Notes; Note; Readme; Read me; Info; Information; Informations; Instructions; Legend; Cover; Cover sheet; Title;"
    " About; Help; Changelog; History; Lists; Notizen; Hinweise; Bemerkungen; Anmerkungen; Anleitung; Erläuterungen;"
    " Legende; Deckblatt; Hilfe; Änderungen; Listen; Remarques; Consignes; Légende; Aide; Listes; Notas; Observaciones;"
    " Instrucciones; Leyenda; Portada; Ayuda; Listas; Istruzioni; Osservazioni; Legenda; Copertina; Guida; Elenchi;"
    " Uwagi; Notatki; Instrukcja; Instrukcje; Pomoc; Listy"
)


def _build_sheet_key(name: str) -> str:
    return " ".join(word for word in build_name_key(name.replace("_", " ")).split(" ") if not _NUMBER.fullmatch(word))


def _index_names(names: str) -> dict[str, None]:
    return {
        _build_sheet_key(spelling): None
        for name in names.split(";")
        for spelling in (name, spell_umlauts(name), name.replace(" ", ""))
    }


_TYPES_BY_KEY: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    kind: {key: types for types, names in sheets.items() for key in _index_names(names)}
    for kind, sheets in _NAMES.items()
}
_NOTE_KEYS: Final = frozenset(_index_names(_NOTES))


def find_sheet_types(kind: str, name: str) -> tuple[str, ...] | None:
    """The fact types that a sheet of this name holds in a document of this kind; None for an unknown name."""
    return _TYPES_BY_KEY[kind].get(_build_sheet_key(name))


def find_other_kind(kind: str, name: str) -> str | None:
    """The other kind of document that a sheet of this name belongs to."""
    return next((other for other in _TYPES_BY_KEY if other != kind and find_sheet_types(other, name)), None)


def is_sheet_of_notes(name: str) -> bool:
    return _build_sheet_key(name) in _NOTE_KEYS
