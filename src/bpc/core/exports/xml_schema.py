"""The XML Schema (1.0) of BPC-XML-1 documents. Equal to docs/formats/passport.xsd, and served by the API."""

from typing import Final

XSD: Final = """\
<?xml version="1.0" encoding="UTF-8"?>
<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns="urn:bpc:passport:xml:1"
           targetNamespace="urn:bpc:passport:xml:1" elementFormDefault="qualified" version="BPC-XML-1">

  <xs:element name="passport">
    <xs:complexType>
      <xs:sequence>
        <xs:element name="passport_id" type="Id"/>
        <xs:element name="passport_version_id" type="Id"/>
        <xs:element name="issued_at" type="Moment"/>
        <xs:element name="battery_product" type="Product"/>
        <xs:element name="fields" type="Fields"/>
        <xs:element name="compliance" type="Compliance"/>
        <xs:element name="receipt" type="Receipt"/>
      </xs:sequence>
      <xs:attribute name="version" type="xs:string" use="required" fixed="BPC-XML-1"/>
      <xs:attribute name="audience" use="required">
        <xs:simpleType>
          <xs:restriction base="xs:string">
            <xs:enumeration value="public"/>
            <xs:enumeration value="interest"/>
            <xs:enumeration value="authority"/>
            <xs:enumeration value="tenant"/>
          </xs:restriction>
        </xs:simpleType>
      </xs:attribute>
    </xs:complexType>
    <xs:unique name="one_field_per_path">
      <xs:selector xpath="*/*"/>
      <xs:field xpath="@path"/>
    </xs:unique>
  </xs:element>

  <xs:complexType name="Product">
    <xs:sequence>
      <xs:element name="sku" type="Text"/>
      <xs:element name="name" type="Text"/>
    </xs:sequence>
    <xs:attribute name="id" type="Id" use="required"/>
  </xs:complexType>

  <!-- hidden: how many fields the passport has beside these. -->
  <xs:complexType name="Fields">
    <xs:sequence>
      <xs:element name="field" type="Field" minOccurs="0" maxOccurs="unbounded"/>
    </xs:sequence>
    <xs:attribute name="hidden" type="xs:nonNegativeInteger" use="required"/>
  </xs:complexType>

  <!-- type: as rules write it, such as Qty(kWh). access: the audiences of the field, none for the tenant alone. -->
  <xs:complexType name="Field">
    <xs:group ref="Value"/>
    <xs:attribute name="path" type="Path" use="required"/>
    <xs:attribute name="type" type="xs:string" use="required"/>
    <xs:attribute name="access" type="Audiences" use="required"/>
  </xs:complexType>

  <xs:group name="Value">
    <xs:choice>
      <xs:element name="none" type="None"/>
      <xs:element name="boolean" type="xs:boolean"/>
      <xs:element name="integer" type="xs:integer"/>
      <xs:element name="decimal" type="xs:decimal"/>
      <xs:element name="date" type="xs:date"/>
      <xs:element name="text" type="Text"/>
      <xs:element name="quantity" type="Quantity"/>
      <xs:element name="list" type="List"/>
      <xs:element name="map" type="Map"/>
      <xs:element name="record" type="Record"/>
    </xs:choice>
  </xs:group>

  <xs:complexType name="None"/>

  <xs:complexType name="Quantity">
    <xs:simpleContent>
      <xs:extension base="xs:decimal">
        <xs:attribute name="unit" type="xs:NMTOKEN" use="required"/>
      </xs:extension>
    </xs:simpleContent>
  </xs:complexType>

  <xs:complexType name="List">
    <xs:group ref="Value" minOccurs="0" maxOccurs="unbounded"/>
  </xs:complexType>

  <xs:complexType name="Map">
    <xs:sequence>
      <xs:element name="entry" minOccurs="0" maxOccurs="unbounded">
        <xs:complexType>
          <xs:sequence>
            <xs:element name="key" type="Text"/>
            <xs:group ref="Value"/>
          </xs:sequence>
        </xs:complexType>
      </xs:element>
    </xs:sequence>
  </xs:complexType>

  <xs:complexType name="Record">
    <xs:sequence>
      <xs:element name="member" minOccurs="0" maxOccurs="unbounded">
        <xs:complexType>
          <xs:group ref="Value"/>
          <xs:attribute name="name" type="xs:NMTOKEN" use="required"/>
        </xs:complexType>
      </xs:element>
    </xs:sequence>
  </xs:complexType>

  <xs:complexType name="Compliance">
    <xs:sequence>
      <xs:element name="entry" minOccurs="0" maxOccurs="unbounded">
        <xs:complexType>
          <xs:sequence>
            <xs:element name="code" type="Text"/>
            <xs:element name="message" type="Text"/>
          </xs:sequence>
          <xs:attribute name="status" use="required">
            <xs:simpleType>
              <xs:restriction base="xs:string">
                <xs:enumeration value="PASS"/>
                <xs:enumeration value="WARN"/>
                <xs:enumeration value="FAIL"/>
                <xs:enumeration value="NOT_APPLICABLE"/>
              </xs:restriction>
            </xs:simpleType>
          </xs:attribute>
          <xs:attribute name="field" type="Path" use="required"/>
        </xs:complexType>
      </xs:element>
    </xs:sequence>
  </xs:complexType>

  <xs:complexType name="Receipt">
    <xs:sequence>
      <xs:element name="payload_hash" type="Hash"/>
      <xs:element name="proof_root_hash" type="Hash"/>
      <xs:element name="receipt_hash" type="Hash"/>
      <xs:element name="snapshot_id" type="Id"/>
      <xs:element name="snapshot_hash" type="Hash"/>
      <xs:element name="rule_package_version_id" type="Id"/>
      <xs:element name="dsl_sha256" type="Hash"/>
      <xs:element name="tests_sha256" type="Hash"/>
      <xs:element name="compiler_build_id" type="Text"/>
      <xs:element name="signing_key_id" type="Text"/>
      <xs:element name="signature_alg" type="xs:string" fixed="ED25519"/>
      <xs:element name="signature" type="xs:base64Binary"/>
      <xs:element name="public_key" type="xs:base64Binary"/>
    </xs:sequence>
  </xs:complexType>

  <!-- A text with a character that XML cannot write is the base64 of its UTF-8 bytes, and says so. -->
  <xs:complexType name="Text">
    <xs:simpleContent>
      <xs:extension base="xs:string">
        <xs:attribute name="encoding" type="xs:string" fixed="base64"/>
      </xs:extension>
    </xs:simpleContent>
  </xs:complexType>

  <xs:simpleType name="Path">
    <xs:restriction base="xs:string">
      <xs:pattern value="[A-Za-z_][A-Za-z0-9_]*(\\.[A-Za-z_][A-Za-z0-9_]*)*"/>
    </xs:restriction>
  </xs:simpleType>

  <xs:simpleType name="Audiences">
    <xs:list>
      <xs:simpleType>
        <xs:restriction base="xs:string">
          <xs:enumeration value="authority"/>
          <xs:enumeration value="interest"/>
          <xs:enumeration value="public"/>
        </xs:restriction>
      </xs:simpleType>
    </xs:list>
  </xs:simpleType>

  <xs:simpleType name="Id">
    <xs:restriction base="xs:string">
      <xs:pattern value="[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"/>
    </xs:restriction>
  </xs:simpleType>

  <xs:simpleType name="Hash">
    <xs:restriction base="xs:string">
      <xs:pattern value="[0-9a-f]{64}"/>
    </xs:restriction>
  </xs:simpleType>

  <xs:simpleType name="Moment">
    <xs:restriction base="xs:dateTime">
      <xs:pattern value="[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{6}Z"/>
    </xs:restriction>
  </xs:simpleType>
</xs:schema>
"""
