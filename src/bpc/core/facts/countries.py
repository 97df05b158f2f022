"""The 249 countries of ISO 3166-1: two letters, three letters, and the names by which people write them. A table.

Pure data. Names are in English and German; of countries that battery supply chains run through also in French, Spanish,
Italian and Polish. How a name is written (capitals, accents, hyphens) does not count. A name that two countries share,
such as `Korea`, is not in the table.
"""

from collections.abc import Mapping
from typing import Final

_ROWS: Final = """\
AD AND Andorra
AE ARE United Arab Emirates|Vereinigte Arabische Emirate|UAE|Émirats arabes unis|Emiratos Árabes Unidos|Emirati Arabi Uniti
AF AFG Afghanistan
AG ATG Antigua and Barbuda|Antigua und Barbuda
AI AIA Anguilla
AL ALB Albania|Albanien
AM ARM Armenia|Armenien
AO AGO Angola
AQ ATA Antarctica|Antarktis
AR ARG Argentina|Argentinien|Argentine|Argentyna
AS ASM American Samoa|Amerikanisch-Samoa
AT AUT Austria|Österreich|Autriche
AU AUS Australia|Australien|Australie
AW ABW Aruba
AX ALA Åland Islands|Åland|Ålandinseln
AZ AZE Azerbaijan|Aserbaidschan
BA BIH Bosnia and Herzegovina|Bosnien und Herzegowina|Bosnia y Herzegovina|Bosnie-Herzégovine|Bosnia ed Erzegovina|Bośnia i Hercegowina
BB BRB Barbados
BD BGD Bangladesh|Bangladesch
BE BEL Belgium|Belgien|Belgique|Bélgica|Belgio|Belgia
BF BFA Burkina Faso
BG BGR Bulgaria|Bulgarien|Bulgarie|Bułgaria
BH BHR Bahrain
BI BDI Burundi
BJ BEN Benin
BL BLM Saint Barthélemy|St. Barthélemy|St. Barts
BM BMU Bermuda
BN BRN Brunei|Brunei Darussalam
BO BOL Bolivia|Bolivien|Plurinational State of Bolivia|Bolivie|Boliwia
BQ BES Bonaire, Sint Eustatius and Saba|Bonaire, Sint Eustatius und Saba|Caribbean Netherlands
BR BRA Brazil|Brasilien|Brésil|Brasil|Brasile|Brazylia
BS BHS Bahamas|The Bahamas
BT BTN Bhutan
BV BVT Bouvet Island|Bouvetinsel
BW BWA Botswana|Botsuana
BY BLR Belarus
BZ BLZ Belize
CA CAN Canada|Kanada|Canadá
CC CCK Cocos (Keeling) Islands|Cocos Islands|Kokosinseln
CD COD Democratic Republic of the Congo|Congo, Democratic Republic of the|DR Congo|DRC|Demokratische Republik Kongo|DR Kongo|République démocratique du Congo|República Democrática del Congo|Repubblica Democratica del Congo|Demokratyczna Republika Konga
CF CAF Central African Republic|Zentralafrikanische Republik
CG COG Republic of the Congo|Republik Kongo|Congo-Brazzaville
CH CHE Switzerland|Schweiz|Suisse|Suiza|Svizzera|Szwajcaria
CI CIV Côte d'Ivoire|Ivory Coast|Elfenbeinküste
CK COK Cook Islands|Cookinseln
CL CHL Chile|Chili|Cile
CM CMR Cameroon|Kamerun
CN CHN China|People's Republic of China|PR China|PRC|VR China|Volksrepublik China|Chine|Cina|Chiny
CO COL Colombia|Kolumbien|Colombie|Kolumbia
CR CRI Costa Rica
CU CUB Cuba|Kuba
CV CPV Cabo Verde|Cape Verde|Kap Verde
CW CUW Curaçao
CX CXR Christmas Island|Weihnachtsinsel
CY CYP Cyprus|Zypern|Chypre|Chipre|Cipro|Cypr
CZ CZE Czechia|Czech Republic|Tschechien|Tschechische Republik|Tchéquie|République tchèque|Chequia|República Checa|Cechia|Repubblica Ceca|Czechy
DE DEU Germany|Deutschland|Bundesrepublik Deutschland|Federal Republic of Germany|Allemagne|Alemania|Germania|Niemcy
DJ DJI Djibouti|Dschibuti
DK DNK Denmark|Dänemark|Danemark|Dinamarca|Danimarca|Dania
DM DMA Dominica
DO DOM Dominican Republic|Dominikanische Republik
DZ DZA Algeria|Algerien
EC ECU Ecuador
EE EST Estonia|Estland|Estonie
EG EGY Egypt|Ägypten
EH ESH Western Sahara|Westsahara
ER ERI Eritrea
ES ESP Spain|Spanien|Espagne|España|Spagna|Hiszpania
ET ETH Ethiopia|Äthiopien
FI FIN Finland|Finnland|Finlande|Finlandia
FJ FJI Fiji|Fidschi
FK FLK Falkland Islands|Falklandinseln
FM FSM Micronesia|Mikronesien|Federated States of Micronesia
FO FRO Faroe Islands|Färöer
FR FRA France|Frankreich|Francia|Francja
GA GAB Gabon|Gabun
GB GBR United Kingdom|Vereinigtes Königreich|UK|Great Britain|Großbritannien|United Kingdom of Great Britain and Northern Ireland|Royaume-Uni|Reino Unido|Regno Unito|Wielka Brytania
GD GRD Grenada
GE GEO Georgia|Georgien
GF GUF French Guiana|Französisch-Guayana
GG GGY Guernsey
GH GHA Ghana
GI GIB Gibraltar
GL GRL Greenland|Grönland
GM GMB Gambia|The Gambia
GN GIN Guinea
GP GLP Guadeloupe
GQ GNQ Equatorial Guinea|Äquatorialguinea
GR GRC Greece|Griechenland|Grèce|Grecia|Grecja
GS SGS South Georgia and the South Sandwich Islands|Südgeorgien und die Südlichen Sandwichinseln
GT GTM Guatemala
GU GUM Guam
GW GNB Guinea-Bissau
GY GUY Guyana
HK HKG Hong Kong|Hongkong
HM HMD Heard Island and McDonald Islands|Heard und McDonaldinseln
HN HND Honduras
HR HRV Croatia|Kroatien|Croatie|Croacia|Croazia|Chorwacja
HT HTI Haiti
HU HUN Hungary|Ungarn|Hongrie|Hungría|Ungheria|Węgry
ID IDN Indonesia|Indonesien|Indonésie|Indonezja
IE IRL Ireland|Irland|Irlande|Irlanda|Irlandia
IL ISR Israel
IM IMN Isle of Man|Insel Man
IN IND India|Indien|Inde|Indie
IO IOT British Indian Ocean Territory|Britisches Territorium im Indischen Ozean
IQ IRQ Iraq|Irak
IR IRN Iran|Islamic Republic of Iran
IS ISL Iceland|Island
IT ITA Italy|Italien|Italie|Italia|Włochy
JE JEY Jersey
JM JAM Jamaica|Jamaika
JO JOR Jordan|Jordanien
JP JPN Japan|Japon|Japón|Giappone|Japonia
KE KEN Kenya|Kenia
KG KGZ Kyrgyzstan|Kirgisistan
KH KHM Cambodia|Kambodscha
KI KIR Kiribati
KM COM Comoros|Komoren
KN KNA Saint Kitts and Nevis|St. Kitts und Nevis
KP PRK North Korea|Nordkorea|Democratic People's Republic of Korea|DPRK
KR KOR South Korea|Südkorea|Republic of Korea|Korea, Republic of|Republik Korea|Corée du Sud|Corea del Sur|Corea del Sud|Korea Południowa
KW KWT Kuwait
KY CYM Cayman Islands|Kaimaninseln
KZ KAZ Kazakhstan|Kasachstan
LA LAO Laos|Lao People's Democratic Republic
LB LBN Lebanon|Libanon
LC LCA Saint Lucia|St. Lucia
LI LIE Liechtenstein
LK LKA Sri Lanka
LR LBR Liberia
LS LSO Lesotho
LT LTU Lithuania|Litauen|Lituanie|Lituania|Litwa
LU LUX Luxembourg|Luxemburg|Luxemburgo|Lussemburgo|Luksemburg
LV LVA Latvia|Lettland|Lettonie|Letonia|Lettonia|Łotwa
LY LBY Libya|Libyen
MA MAR Morocco|Marokko|Maroc|Marruecos|Marocco|Maroko
MC MCO Monaco
MD MDA Moldova|Republic of Moldova|Moldau|Republik Moldau
ME MNE Montenegro
MF MAF Saint Martin|St. Martin|Saint Martin (French part)
MG MDG Madagascar|Madagaskar
MH MHL Marshall Islands|Marshallinseln
MK MKD North Macedonia|Nordmazedonien
ML MLI Mali
MM MMR Myanmar|Burma
MN MNG Mongolia|Mongolei
MO MAC Macao|Macau
MP MNP Northern Mariana Islands|Nördliche Marianen
MQ MTQ Martinique
MR MRT Mauritania|Mauretanien
MS MSR Montserrat
MT MLT Malta|Malte
MU MUS Mauritius
MV MDV Maldives|Malediven
MW MWI Malawi
MX MEX Mexico|Mexiko|Mexique|México|Messico|Meksyk
MY MYS Malaysia|Malaisie|Malasia|Malesia|Malezja
MZ MOZ Mozambique|Mosambik|Mozambico|Mozambik
NA NAM Namibia
NC NCL New Caledonia|Neukaledonien|Nouvelle-Calédonie
NE NER Niger
NF NFK Norfolk Island|Norfolkinsel
NG NGA Nigeria
NI NIC Nicaragua
NL NLD Netherlands|The Netherlands|Niederlande|Holland|Pays-Bas|Países Bajos|Paesi Bassi|Holandia|Niderlandy
NO NOR Norway|Norwegen|Norvège|Noruega|Norvegia|Norwegia
NP NPL Nepal
NR NRU Nauru
NU NIU Niue
NZ NZL New Zealand|Neuseeland
OM OMN Oman
PA PAN Panama
PE PER Peru|Perú|Pérou
PF PYF French Polynesia|Französisch-Polynesien
PG PNG Papua New Guinea|Papua-Neuguinea
PH PHL Philippines|Philippinen|Filipinas|Filippine|Filipiny
PK PAK Pakistan
PL POL Poland|Polen|Pologne|Polonia|Polska
PM SPM Saint Pierre and Miquelon|St. Pierre und Miquelon
PN PCN Pitcairn|Pitcairninseln
PR PRI Puerto Rico
PS PSE Palestine|State of Palestine|Palästina
PT PRT Portugal|Portogallo|Portugalia
PW PLW Palau
PY PRY Paraguay
QA QAT Qatar|Katar
RE REU Réunion
RO ROU Romania|Rumänien|Roumanie|Rumanía|Rumunia
RS SRB Serbia|Serbien|Serbie
RU RUS Russia|Russland|Russian Federation|Russische Föderation|Russie|Rusia|Rosja
RW RWA Rwanda|Ruanda
SA SAU Saudi Arabia|Saudi-Arabien
SB SLB Solomon Islands|Salomonen
SC SYC Seychelles|Seychellen
SD SDN Sudan
SE SWE Sweden|Schweden|Suède|Suecia|Svezia|Szwecja
SG SGP Singapore|Singapur|Singapour
SH SHN Saint Helena, Ascension and Tristan da Cunha|St. Helena, Ascension und Tristan da Cunha|Saint Helena
SI SVN Slovenia|Slowenien|Slovénie|Eslovenia|Słowenia
SJ SJM Svalbard and Jan Mayen|Spitzbergen und Jan Mayen
SK SVK Slovakia|Slowakei|Slovak Republic|Slowakische Republik|Slovaquie|Eslovaquia|Slovacchia|Słowacja
SL SLE Sierra Leone
SM SMR San Marino
SN SEN Senegal
SO SOM Somalia
SR SUR Suriname
SS SSD South Sudan|Südsudan
ST STP Sao Tome and Principe|São Tomé und Príncipe
SV SLV El Salvador
SX SXM Sint Maarten|Sint Maarten (Dutch part)
SY SYR Syria|Syrien|Syrian Arab Republic
SZ SWZ Eswatini
TC TCA Turks and Caicos Islands|Turks- und Caicosinseln
TD TCD Chad|Tschad
TF ATF French Southern Territories|Französische Süd- und Antarktisgebiete
TG TGO Togo
TH THA Thailand|Thaïlande|Tailandia|Thailandia|Tajlandia
TJ TJK Tajikistan|Tadschikistan
TK TKL Tokelau
TL TLS Timor-Leste|East Timor|Osttimor
TM TKM Turkmenistan
TN TUN Tunisia|Tunesien|Tunisie|Túnez|Tunezja
TO TON Tonga
TR TUR Türkiye|Turkey|Türkei|Turquie|Turquía|Turchia|Turcja
TT TTO Trinidad and Tobago|Trinidad und Tobago
TV TUV Tuvalu
TW TWN Taiwan
TZ TZA Tanzania|Tansania|United Republic of Tanzania
UA UKR Ukraine|Ucrania|Ucraina|Ukraina
UG UGA Uganda
UM UMI United States Minor Outlying Islands|Kleinere Inselbesitzungen der Vereinigten Staaten
US USA United States|United States of America|Vereinigte Staaten|Vereinigte Staaten von Amerika|U.S.A.|États-Unis|Estados Unidos|Stati Uniti|Stany Zjednoczone
UY URY Uruguay
UZ UZB Uzbekistan|Usbekistan
VA VAT Vatican City|Holy See|Vatikanstadt|Vatikan
VC VCT Saint Vincent and the Grenadines|St. Vincent und die Grenadinen
VE VEN Venezuela|Bolivarian Republic of Venezuela
VG VGB British Virgin Islands|Britische Jungferninseln
VI VIR United States Virgin Islands|US Virgin Islands|Amerikanische Jungferninseln
VN VNM Vietnam|Viet Nam|Wietnam
VU VUT Vanuatu
WF WLF Wallis and Futuna|Wallis und Futuna
WS WSM Samoa
YE YEM Yemen|Jemen
YT MYT Mayotte
ZA ZAF South Africa|Südafrika|Afrique du Sud|Sudáfrica|Sudafrica|Republika Południowej Afryki
ZM ZMB Zambia|Sambia
ZW ZWE Zimbabwe|Simbabwe
"""  # noqa: E501 (a row is a country)

# For each two letters the three letters and the names.
COUNTRIES: Final[Mapping[str, tuple[str, ...]]] = {
    row[:2]: (row[3:6], *row[7:].split("|")) for row in _ROWS.strip().split("\n")
}
